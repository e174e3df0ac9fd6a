"""Airflow: one task a night runs a job. The job knows which windows are due, so nothing is caught up by Airflow.

The keys are BACKCAST_PROJECT_KEY and BACKCAST_PERSONAL_KEY in the environment of the worker, BACKCAST_JOB the job file.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import dag, task


@dag(schedule="15 3 * * *", start_date=datetime(2024, 1, 1), catchup=False, max_active_runs=1)
def backcast_nightly():
    @task(retries=3, retry_delay=timedelta(minutes=30))
    def fill() -> dict[str, str]:
        """Outcomes by window. What a failed try left is resumed by the next one, or the next night."""
        import pipeline

        run = pipeline.run_job(os.environ["BACKCAST_JOB"], pipeline.options.RunOptions(workers=0))
        if run.problem is not None:
            raise run.problem
        return {window.window: window.outcome for window in run.windows}

    fill()


nightly = backcast_nightly()
