"""A plan of five million distinct ids takes at most 700 MB over all its processes, by the real command (6 minutes).

Four million devices, each first alone and then with one of a million users, who have a property each. `make soak` runs
it; SOAK_IDS asks for other numbers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.soak.soak_million import family

IDS = int(os.environ.get("SOAK_IDS", "5000000"))
MOST_MEGABYTES = 700
"""Two workers have 200 of these: they wait while identities are resolved, and decide on profiles afterwards."""
START = 1_672_531_200
"""2023-01-01T00:00:00Z."""


def export(path: Path, ids: int) -> tuple[int, int]:
    """Write Mixpanel rows with this many ids; the number of devices and users."""
    users = ids // 5
    devices = ids - users
    with path.open("w", encoding="utf-8") as file:
        for number in range(devices):
            device, user = f"{number * 2654435761 % 2**32:08x}-aaaa-4bbb-8ccc-{number:012d}", f"user-{number % users}"
            time = START + number
            file.write(
                f'{{"event":"Seen","properties":{{"time":{time},"distinct_id":"$device:{device}",'
                f'"$device_id":"{device}","$insert_id":"a{number}"}}}}\n'
                f'{{"event":"Signed In","properties":{{"time":{time + 60},"distinct_id":"{user}","$user_id":"{user}",'
                f'"$device_id":"{device}","$insert_id":"b{number}","$initial_referrer":"https://shop.example/{user}"}}}}\n'
            )
    return devices, users


def proportional(pid: int) -> float:
    """The megabytes of a process, with its share of shared pages; 0 when it has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    except OSError:
        return 0.0
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def test_a_plan_of_millions_of_ids_takes_so_much_memory_and_no_more(tmp_path: Path) -> None:
    """Each device is merged into its user, each user has a profile."""
    devices, users = export(tmp_path / "export.jsonl", IDS)
    command = [sys.executable, "-m", "pipeline", "plan", str(tmp_path / "export.jsonl"), "-m", "mixpanel", "--json"]
    command += ["--timezone", "UTC", "--quiet", "-o", str(tmp_path / "plan")]
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional, family(process.pid))))
            time.sleep(0.25)
        assert process.stdout is not None
        plan = json.loads(process.stdout.read())
    print({"megabytes": peak, "events": plan["events"]})
    assert plan["events"]["phases"] == {
        "identities": devices, "groups": 0, "events": 2 * devices, "persons": users,
    }  # fmt: skip
    assert 0 < peak <= MOST_MEGABYTES
