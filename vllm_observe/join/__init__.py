"""The join: from the records of both sides and the engine's samples to requests with a cause.

`joiner` holds records until a request is whole. `identity` says which client ids an engine's id may
stand for, `attempts` sorts one id's records by time, `merge` makes one request of an attempt's, and
`surroundings` finds the engine's samples around it. `causes` names why it was slow or failed.
`targets` judges its latencies. The rest keeps what all requests have in common within bounds:
`usual`, `sessions`, `cardinality`, `coverage`.
"""
