"""What is below the engine: HTTP, the process, the GPU."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import MANY
from vllm_observe.dashboards.metrics import foreign, vllm
from vllm_observe.dashboards.panels import Bands, Colour, Query, Row, TimeSeries, Unit, above
from vllm_observe.dashboards.queries import SERVER, calculate, max_by, rate, ratio, select, sum_by, top
from vllm_observe.thresholds import GPU_HOT_CELSIUS

__all__ = ["GPU", "HOST"]

_MIB = 1024 * 1024
_GPU = ("Hostname", "gpu")
_BY_GPU = "{{Hostname}} GPU {{gpu}}"

HOST = Row(
    "How are its HTTP server and its process?",
    "Statuses as vLLM answered them, and what its API process uses.",
    (
        TimeSeries(
            title="HTTP answers by status",
            shows="Requests a second by the class of their HTTP status.",
            means="A rise of 4xx is clients asking wrongly, of 5xx vLLM failing. 2xx proves little: a dead "
            "engine's errors, and those after a stream's start, are 2xx too.",
            first="for 5xx read vLLM's log; for 4xx see which handler, beside this.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=6,
            colours={
                "2xx": Colour.GOOD,
                "3xx": Colour.NEUTRAL,
                "4xx": Colour.WARNING,
                "5xx": Colour.CRITICAL,
            },
            queries=(Query(sum_by(rate(vllm("http_requests")), "status"), "{{status}}"),),
        ),
        TimeSeries(
            title="HTTP answers by handler",
            shows="Requests a second by path and class of status.",
            means="A path that stands out tells which use of the API grew or fails.",
            first="for a failing path, ask its clients what they send.",
            unit=Unit.REQUESTS_PER_SECOND,
            width=6,
            queries=(
                Query(
                    top(MANY, sum_by(rate(vllm("http_requests")), "handler", "status")),
                    "{{handler}} {{status}}",
                ),
            ),
        ),
        TimeSeries(
            title="Processor time of the API process",
            shows="Cores that vLLM's API process uses; absent with several API processes.",
            means="At 1 the loop that serves requests is busy all the time: tokens come late whatever the GPU "
            "does.",
            first="start more API processes (--api-server-count), or scrape less often.",
            unit=Unit.CORES,
            width=6,
            bands=above(1),
            queries=(
                Query(top(MANY, sum_by(rate(foreign("process_cpu_seconds_total")), *SERVER)), "{{instance}}"),
            ),
        ),
        TimeSeries(
            title="Memory of the API process",
            shows="Resident memory of vLLM's API process; absent with several API processes.",
            means="A steady rise over days is a leak, and ends with the kernel killing it.",
            first="compare with the container's limit, and with the traffic.",
            unit=Unit.BYTES,
            width=6,
            queries=(
                Query(
                    top(MANY, max_by(select(foreign("process_resident_memory_bytes")), *SERVER)),
                    "{{instance}}",
                ),
            ),
        ),
    ),
)

GPU = Row(
    "How are its GPUs?",
    "From NVIDIA's DCGM exporter, where it is scraped; pick the host above.",
    (
        TimeSeries(
            title="GPU utilisation",
            shows="Share of the time in which the GPU ran anything at all.",
            means="High says little. Low while requests wait is a wrong limit or a starved engine.",
            first="compare with waiting requests, and with the API process's processor time.",
            unit=Unit.RATIO,
            top_value=1,
            width=6,
            queries=(
                Query(
                    top(MANY, calculate(max_by(select(foreign("DCGM_FI_DEV_GPU_UTIL")), *_GPU), "/", 100)),
                    _BY_GPU,
                ),
            ),
        ),
        TimeSeries(
            title="GPU memory",
            shows="Share of the GPU's memory in use. vLLM takes its share at the start and keeps it.",
            means="A rise after the start is somebody else on the same GPU, or graphs and buffers growing.",
            first="see which processes hold it with nvidia-smi.",
            unit=Unit.RATIO,
            top_value=1,
            width=6,
            queries=(
                Query(
                    top(
                        MANY,
                        ratio(
                            max_by(select(foreign("DCGM_FI_DEV_FB_USED")), *_GPU),
                            calculate(
                                max_by(select(foreign("DCGM_FI_DEV_FB_USED")), *_GPU),
                                "+",
                                max_by(select(foreign("DCGM_FI_DEV_FB_FREE")), *_GPU),
                            ),
                        ),
                    ),
                    _BY_GPU,
                ),
            ),
        ),
        TimeSeries(
            title="GPU power",
            shows="Electrical power.",
            means="Lower than usual at the same load is a GPU that slows down: heat, or a power cap.",
            first="compare with the temperature.",
            unit=Unit.WATTS,
            width=6,
            queries=(Query(top(MANY, max_by(select(foreign("DCGM_FI_DEV_POWER_USAGE")), *_GPU)), _BY_GPU),),
        ),
        TimeSeries(
            title="GPU temperature",
            shows="Temperature of the GPU.",
            means="Above the line GPUs of data centres begin to slow down.",
            first="check the cooling, and whether the neighbours are hot too.",
            unit=Unit.CELSIUS,
            width=6,
            bands=above(GPU_HOT_CELSIUS),
            queries=(Query(top(MANY, max_by(select(foreign("DCGM_FI_DEV_GPU_TEMP")), *_GPU)), _BY_GPU),),
        ),
        TimeSeries(
            title="GPU XID errors",
            shows="The number of the driver's last XID error; 0 is none. It is a code, no count.",
            means="Any other than 0 is a fault that the driver saw; some end the engine.",
            first="look the code up in NVIDIA's list, and drain the server if it is about hardware.",
            unit=Unit.COUNT,
            width=24,
            height=6,
            bands=Bands(Colour.GOOD, ((1, Colour.CRITICAL),)),
            queries=(Query(top(MANY, max_by(select(foreign("DCGM_FI_DEV_XID_ERRORS")), *_GPU)), _BY_GPU),),
        ),
    ),
    collapsed=True,
)
