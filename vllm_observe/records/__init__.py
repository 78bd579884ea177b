"""The requests' side: follow log files, and turn each of their lines into a typed record.

The way of a byte: :mod:`files` is the operating system, :mod:`tail` one open file, whose bytes
:mod:`lines` cuts into lines and :mod:`cri` unwraps. :mod:`follow` keeps all files of all sources
through rotations: :mod:`search` finds them, :mod:`watched` is what it knows of each, and by
:mod:`position` and :mod:`recognise` what was read already is known again. :mod:`format1` decodes a
line as the tables in :mod:`schema` say, after :mod:`fields` where a log has names of its own;
:mod:`formats` are the logs of well-known programs. :mod:`reader` puts it all together, counts, and
tells about bad lines. :mod:`otlp` reads no file: vLLM sends its spans.
"""
