"""All checks, one a module, in the order in which the documents list them."""

from __future__ import annotations

from vllm_observe.alerts.lint.checks import (
    clamped_divisor,
    contradiction,
    count_of_nothing,
    every_state,
    fires_at_one,
    fixed_outcome,
    fixed_queue_depth,
    frozen_gauge,
    global_absent,
    idle_or_stuck,
    le_value,
    many_to_one,
    mean_of_quantiles,
    missing_annotation,
    missing_for,
    no_condition,
    one_sided_label,
    part_by_itself,
    quantile_buckets,
    rate_of_gauge,
    ratio_as_percent,
    raw_counter,
    seconds_as_milliseconds,
    short_window,
    sum_without_count,
    template_label,
    unguarded_ratio,
    unknown_label,
    unknown_metric,
    unknown_value,
)

__all__ = ["CHECKS", "SYNTAX"]

#: What is said of an expression that cannot be read: no check can look at it.
SYNTAX = "syntax"

CHECKS = tuple(
    module.CHECK
    for module in (
        unknown_metric,
        unknown_label,
        unknown_value,
        le_value,
        contradiction,
        fixed_outcome,
        every_state,
        ratio_as_percent,
        seconds_as_milliseconds,
        one_sided_label,
        many_to_one,
        part_by_itself,
        raw_counter,
        rate_of_gauge,
        short_window,
        quantile_buckets,
        mean_of_quantiles,
        sum_without_count,
        unguarded_ratio,
        clamped_divisor,
        count_of_nothing,
        global_absent,
        no_condition,
        missing_for,
        frozen_gauge,
        idle_or_stuck,
        fires_at_one,
        fixed_queue_depth,
        missing_annotation,
        template_label,
    )
)
