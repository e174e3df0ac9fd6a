"""The job file: the documented keys, and errors that name the place and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import JobError, MappingError, UsageError
from pipeline.jobs import load_job
from pipeline.mapper import load as load_mapping
from pipeline.timestamps import DAY, HOUR
from tests.support.jobs import write_job

WHOLE = """\
job: nightly-mixpanel
source: exports/{date:%Y/%m/%d}/*.jsonl.gz     # relative to the job file
mapping: mixpanel
timezone: America/New_York
window: day
window_timezone: UTC
from: 2024-01-01
lag: 49h
lookback: 2
collapse: none
persons: {properties: none}
merges: hold
to: us
state: state/nightly-mixpanel
missing: wait
gates: {max_rejects: 0.1%}
rate: 5000
"""
LEAST = """\
job: a
source: "{date:%Y%m%d}"
mapping: mixpanel
from: 2024-01-01
persons: {properties: none}
to: http://127.0.0.1:1
"""


def loaded(folder: Path, text: str) -> object:
    path = folder / "job.yaml"
    path.write_text(text, "utf-8")
    return load_job(path)


def test_every_documented_key_is_understood_and_defaults_are_careful(tmp_path: Path) -> None:
    """The whole example of the documentation; without keys 49 hours of lag, no lookback, no rejects, merges held."""
    (tmp_path / "job.yaml").write_text(WHOLE, "utf-8")
    job = load_job(tmp_path / "job.yaml")
    assert (job.name, job.to) == ("nightly-mixpanel", "us")
    assert (job.plan.mapping, job.plan.timezone) == ("mixpanel", ("America/New_York",))
    assert (job.calendar.kind, job.calendar.zone, job.first.label, job.until) == ("day", "UTC", "2024-01-01", None)
    assert (job.lag, job.lookback, job.plan.collapse_identical, job.most_merges) == (49 * HOUR, 2, False, None)
    assert (job.missing, job.apply.rate) == ("wait", 5000)
    assert (job.plan.max_rejects, job.plan.allow_key_conflicts) == ("0.1%", False)
    assert job.state == tmp_path / "state/nightly-mixpanel"
    assert job.source.at(job.first.wall) == "exports/2024/01/01/*.jsonl.gz"
    (tmp_path / "job.yaml").write_text(LEAST, "utf-8")
    job = load_job(tmp_path / "job.yaml")
    assert (job.lag, job.lookback, job.missing, job.plan.max_rejects) == (49 * HOUR, 0, "wait", "0")
    assert (job.most_merges, job.apply.rate, job.calendar.zone, job.state) == (None, None, "UTC", tmp_path / "state/a")
    assert (job.plan.collapse_identical, job.plan.allow_key_conflicts) == (False, False)
    (tmp_path / "job.yaml").write_text(LEAST + "gates: {key_conflicts: allow}\n", "utf-8")
    accepting = load_job(tmp_path / "job.yaml")
    assert (accepting.plan.max_rejects, accepting.plan.allow_key_conflicts) == ("0", True)


def test_options_of_plans_and_of_later_steps_are_keys(tmp_path: Path) -> None:
    """One key is one option, also if several steps have it, with its own limits; a wrong value is an error with its
    place."""
    path = tmp_path / "job.yaml"
    path.write_text(LEAST + "gates: {spike: 8, level: 2.5, gap: 3, hour_events: 2000}\n", "utf-8")
    plan = load_job(path).plan
    assert (plan.spike, plan.level, plan.gap, plan.hour_events) == (8.0, 2.5, 3, 2_000)
    for wrong, says in (("level: 1", "is not a number above 1"), ("gap: 0", "is not a whole number of 1 or more")):
        path.write_text(LEAST + f"gates: {{{wrong}}}\n", "utf-8")
        with pytest.raises(JobError, match=says):
            load_job(path)
    said = (
        "rehearse: each\nfunctions: pause\nsettle: 15m\nproject: 7\napi: eu\ntransport: batch\nverify: {fields: all}\n"
    )
    path = tmp_path / "job.yaml"
    path.write_text(LEAST + said, "utf-8")
    job = load_job(path)
    assert (job.apply.require_rehearsal, job.apply.transport, job.verify.fields) == (True, "batch", "all")
    assert (job.checks.pause_functions, job.checks.settle) == (True, 900.0)
    assert [(one.project, one.api) for one in (job.checks, job.verify)] == [("7", "eu")] * 2
    path.write_text(LEAST, "utf-8")
    job = load_job(path)
    assert (job.apply.require_rehearsal, job.checks.pause_functions, job.verify.fields) == (False, False, "sample")
    for wrong, says in (("settle: soon", "not a length of time"), ("verify: all", "takes a table")):
        path.write_text(LEAST + wrong + "\n", "utf-8")
        with pytest.raises(JobError, match=says) as caught:
            load_job(path)
        assert caught.value.line == 7


def test_the_other_spellings(tmp_path: Path) -> None:
    """Zones that changed, hours, merges up to a number, days of lag, an end, a mapping next to the job file."""
    (tmp_path / "mine.yaml").write_text(
        "format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevent: /e\ndistinct_id: /d\ntime: {from: /t, unit: s}\n"
    )
    path = write_job(
        tmp_path,
        "eu",
        source="x/{date:%Y%m%d%H}.gz",
        window="hour",
        from_="2024-01-01T05",
        until="2024-01-01T07",
        lag="3d",
        merges="{up-to: 20}",
        timezone="[America/New_York, Europe/Berlin@2021-03-01]",
        mapping="mine.yaml",
        set="",
    )
    job = load_job(path)
    assert (job.first.label, job.until and job.until.label, job.lag) == ("2024-01-01T05", "2024-01-01T07", 3 * DAY)
    assert (job.most_merges, job.plan.mapping) == (20, str(tmp_path / "mine.yaml"))
    assert job.plan.timezone == ("America/New_York", "Europe/Berlin@2021-03-01")


@pytest.mark.parametrize(
    ("old", "new", "place", "says", "hint"),
    [
        ("lookback: 2", "loockback: 2", "9:1", "a job has no key 'loockback'", "did you mean 'lookback'?"),
        ("lookback: 2", "lookback: -1", "9:11", "is not a whole number of 0 or more", "write"),
        ("lookback: 2", "lookback: [1]", "9:11", "takes text", ""),
        ("lag: 49h", "lag: 2h", "8:6", "under 48 hours old", "write 48h or more"),
        ("lag: 49h", "lag: 2 days", "8:6", "not a length of time", "such as 49h"),
        ("window: day", "window: daily", "5:9", "cannot be 'daily'", "did you mean 'day'?"),
        ("window_timezone: UTC", "window_timezone: Berlin", "6:18", "'Berlin' is not a time zone", "'Europe/Berlin'"),
        ("timezone: America/New_York", "timezone: [Mars]", "4:12", "'Mars' is not a time zone", ""),
        ("from: 2024-01-01", "from: 2024-13-01", "7:7", "is not a valid day", "write 2024-01-31"),
        ("from: 2024-01-01", "from: 2024-01-01\nuntil: 2024-01-01", "8:8", "would have no window", "first window"),
        ("collapse: none", "collapse: all", "10:11", "cannot be 'all'", "none, identical"),
        ("{properties: none}", "{properties: all}", "11:23", "cannot be 'all'", "none, final"),
        ("{properties: none}", "{property: none}", "11:11", "no key 'property'", "did you mean 'properties'?"),
        ("{properties: none}", "none", "11:10", "takes a table", ""),
        ("merges: hold", "merges: all", "12:9", "cannot be 'all'", "hold"),
        ("merges: hold", "merges: {up-to: some}", "12:17", "not a whole number", "write"),
        ("to: us", "to: mars", "13:5", "not a target", "us, eu"),
        ("missing: wait", "missing: skip", "15:10", "cannot be 'skip'", "wait, done, stop"),
        ("0.1%", "a few", "16:22", "is neither a number nor a percentage", "0.1%"),
        ("rate: 5000", "rate: 0", "17:7", "not a rate", "write 5000"),
        ("rate: 5000", "checks: {spikes: stop}", "17:10", "there is no check or code 'spikes'", "spike"),
        ("mapping: mixpanel", "mapping: mixpannel", "3:10", "neither a file nor the name", "did you mean 'mixpanel'?"),
        ("{date:%Y/%m/%d}", "{date:%Y}", "2:9", "several days would have the same path", "{date:%Y/%m/%d}"),
        ("job: nightly-mixpanel", "job: ../../etc", "1:6", "is not a name", "letters"),
        ("rate: 5000", "rate: 5000\nexclude_ids: gone.txt", "18:14", "gone.txt does not exist", "the job file"),
        ("to: us\n", "", "1:1", "a job lacks 'to'", "us, eu or a URL"),
        ("job: nightly-mixpanel", "job: a\njob: b", "2:1", "occurs twice", "keep one"),
        ("rate: 5000", "rate: *fast", "17:7", "anchors and aliases", ""),
        ("rate: 5000", "rate: {", "18:1", "not YAML", "indentation"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_and_what_to_write(
    tmp_path: Path, old: str, new: str, place: str, says: str, hint: str
) -> None:
    """File, line and column; the nearest word if there is one."""
    assert old in WHOLE
    with pytest.raises(JobError) as caught:
        loaded(tmp_path, WHOLE.replace(old, new))
    error = caught.value
    assert f"{error.line}:{error.column}" == place
    assert says in error.message
    assert hint in error.hint
    assert error.message.endswith(f"at {tmp_path / 'job.yaml'}:{place}")


def test_a_file_that_is_not_a_job_says_what_to_do(tmp_path: Path) -> None:
    """Empty, missing, a folder, nested too deeply, or with an error in the mapping, whose own place is named."""
    with pytest.raises(JobError, match="a job is empty"):
        loaded(tmp_path, "")
    with pytest.raises(UsageError, match="cannot read the job file"):
        load_job(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot read the job file"):
        load_job(tmp_path)
    (tmp_path / "mine.yaml").write_text("format: backcast.mapping/1\ntool: shop\nevnt: /e\n")
    with pytest.raises(MappingError, match=r"mine\.yaml:3:1"):
        load_job(write_job(tmp_path, "eu", mapping="mine.yaml"))
    with pytest.raises(JobError, match="nested more than 32 levels deep") as caught:
        loaded(tmp_path, f"job: {'[' * 50_000}{']' * 50_000}\n")
    assert (caught.value.line, caught.value.exit_code) == (1, 2)


def test_promoted_properties_are_never_final_in_a_job(tmp_path: Path) -> None:
    """Neither the job file nor its mapping can set it: a window that comes late would overwrite newer values."""
    said = LEAST.replace("{properties: none}", "{properties: none, promoted: final}")
    with pytest.raises(JobError, match="would overwrite newer ones"):
        loaded(tmp_path, said)
    assert loaded(tmp_path, said.replace("promoted: final", "promoted: leave"))
    mapping = load_mapping("generic").text.replace("\nproperties:\n", "\npersons: {promoted: final}\nproperties:\n")
    (tmp_path / "own.yaml").write_text(mapping, "utf-8")
    with pytest.raises(JobError, match=r"own\.yaml has `promoted: final`"):
        loaded(tmp_path, LEAST.replace("mapping: mixpanel", "mapping: own.yaml"))
