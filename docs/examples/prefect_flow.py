"""Prefect: a flow that runs a job; `python prefect_flow.py` serves it every night.

The keys are BACKCAST_PROJECT_KEY and BACKCAST_PERSONAL_KEY in the environment, BACKCAST_JOB the job file.
"""

import os

from prefect import flow

import pipeline


@flow(retries=3, retry_delay_seconds=1800)
def backcast_nightly() -> dict[str, str]:
    """Outcomes by window. What a failed try left is resumed by the next one, or the next night."""
    run = pipeline.run_job(os.environ["BACKCAST_JOB"], pipeline.options.RunOptions(workers=0))
    if run.problem is not None:
        raise run.problem
    return {window.window: window.outcome for window in run.windows}


if __name__ == "__main__":
    backcast_nightly.serve(name="nightly", cron="15 3 * * *", limit=1)
