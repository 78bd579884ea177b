from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from vllm_observe.serve.exemplars import exemplar_labels


@settings(max_examples=200)
@given(request=st.text(min_size=1, max_size=300), session=st.none() | st.text(max_size=300))
def test_any_ids_make_an_exemplar_that_the_client_library_takes_writes_and_reads_back(request, session):
    labels = exemplar_labels(request, session)
    registry = CollectorRegistry()
    Histogram("h", "help", buckets=(1.0,), registry=registry).observe(0.5, labels)
    page = generate_latest(registry).decode("utf-8")
    (family,) = text_string_to_metric_families(page)
    (read,) = [sample.exemplar.labels for sample in family.samples if sample.exemplar]
    assert read == labels
    assert sum(len(name) + len(value) for name, value in labels.items()) <= 128
