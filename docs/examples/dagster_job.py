"""Dagster: a job of one op, and its schedule. The job file knows which windows are due, so there are no partitions.

The keys are BACKCAST_PROJECT_KEY and BACKCAST_PERSONAL_KEY in the environment, BACKCAST_JOB the job file.
"""

import os

import dagster

import pipeline


@dagster.op(retry_policy=dagster.RetryPolicy(max_retries=3, delay=1800))
def fill() -> dict[str, str]:
    """Outcomes by window. What a failed try left is resumed by the next one, or the next night."""
    run = pipeline.run_job(os.environ["BACKCAST_JOB"], pipeline.options.RunOptions(workers=0))
    if run.problem is not None:
        raise run.problem
    return {window.window: window.outcome for window in run.windows}


@dagster.job(tags={"dagster/concurrency_key": "backcast-nightly"})
def backcast_nightly() -> None:
    fill()


definitions = dagster.Definitions(
    jobs=[backcast_nightly],
    schedules=[dagster.ScheduleDefinition(job=backcast_nightly, cron_schedule="15 3 * * *")],
)
