"""The examples in docs/examples run a job on a schedule: each is started for real where its tool is installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.local_service import LocalService
from tests.support.deliveries import KEY
from tests.support.forked import programs
from tests.support.jobs import KEYS, PERSONAL_KEY, days, sent_once, write_job

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
STARTED = {
    "dagster": "import dagster_job; done = dagster_job.backcast_nightly.execute_in_process();"
    " print(json.dumps(done.output_for_node('fill')))",
    "prefect": "import prefect_flow; print(json.dumps(prefect_flow.backcast_nightly()))",
    "airflow": "import airflow_dag; run = airflow_dag.nightly.test();"
    " print(json.dumps(run.get_task_instance('fill').xcom_pull(task_ids='fill')))",
}
"""For each tool, installed in `.venv-TOOL`: the program that starts its example in one process, and prints the outcomes
by window."""


@pytest.mark.parametrize("tool", STARTED)
def test_an_orchestrator_runs_a_job(tmp_path: Path, tool: str) -> None:
    """Every window lands once, and a second run has nothing to do."""
    python = ROOT / f".venv-{tool}/bin/python"
    if not python.exists():
        pytest.skip(f"{tool} is not installed in .venv-{tool}, which `make schedulers` does")
    rows = days(tmp_path, 1, 2)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
            "BACKCAST_JOB": str(job), "BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": PERSONAL_KEY,
            "PYTHONPATH": str(EXAMPLES), "HOME": str(tmp_path), "DAGSTER_HOME": str(tmp_path), "DO_NOT_TRACK": "1",
            "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false", "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        }  # fmt: skip
        if tool == "airflow":
            migrate = [str(python.with_name("airflow")), "db", "migrate"]
            subprocess.run(migrate, env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=300)
        for expected in ({"2024-01-01": "done", "2024-01-02": "done"}, {}):
            done = subprocess.run(
                [python, "-c", f"import json; {STARTED[tool]}"],
                env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert json.loads(done.stdout.strip().splitlines()[-1]) == expected
        assert sent_once(service, rows)


def test_systemd_accepts_service_and_timer() -> None:
    """As `systemd-analyze verify` reads them."""
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed")
    units = [str(EXAMPLES / f"backcast-nightly.{kind}") for kind in ("service", "timer")]
    done = subprocess.run([verifier, "verify", *units], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "backcast-nightly" in line]) == (0, [])


def example_commands() -> dict[str, str]:
    """The command of each example that has one, with shell syntax and paths as they are written."""
    unit = (EXAMPLES / "backcast-nightly.service").read_text()
    service = re.search(r"^ExecStart=(?:/usr/bin/env )?(.*)$", unit, re.M)
    line = next(line for line in (EXAMPLES / "crontab").read_text().splitlines() if not line.startswith("#"))
    image = (EXAMPLES / "Containerfile").read_text()
    entry, arguments = (json.loads(re.search(rf"^{word} (.*)$", image, re.M)[1]) for word in ("ENTRYPOINT", "CMD"))  # type: ignore[index]
    assert service is not None
    return {
        "systemd": service[1].replace("${CREDENTIALS_DIRECTORY}", "."),
        "cron": line.split(maxsplit=5)[5].partition("&& ")[2],
        "container": shlex.join([*entry, *arguments]),
    }


@pytest.mark.parametrize("example", ["systemd", "cron", "container"])
def test_the_command_of_an_example_runs_a_job(tmp_path: Path, example: str) -> None:
    """In a shell, from the job's folder, with the keys in the files that it names, or in the environment."""
    rows = days(tmp_path, 1)
    for name, key in (("project-key", KEY), ("personal-key", PERSONAL_KEY)):
        (tmp_path / name).write_text(key)
        (tmp_path / name).chmod(0o600)
    command = example_commands()[example]
    keys = {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": PERSONAL_KEY} if example == "container" else {}
    environment = os.environ | {"PATH": f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}"} | keys
    with LocalService(keys=KEYS) as service:
        write_job(tmp_path, service.url, until="2024-01-02").rename(tmp_path / "nightly.yaml")
        done = subprocess.run(
            ["sh", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert sent_once(service, rows)
