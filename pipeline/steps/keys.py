"""Where the keys of a step come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline import config
from pipeline.config import Secret
from pipeline.delivery.send import capture_key
from pipeline.options import KeyOptions

Warn = Callable[[str], None]
"""Gets a sentence for a person."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys of a step come from: those given, else the files that options name, else the environment.
    Each is read when the step needs it."""

    project: Secret | None = None
    personal: Secret | None = None
    files: KeyOptions = field(default_factory=KeyOptions)

    def capture(self, to: str, warn: Warn, *, dry_run: bool = False) -> Secret:
        """The capture key for a target, as `pipeline.delivery.send.capture_key` finds it. Raises UsageError."""
        return capture_key(to, self.files.project_key_file, self.project, dry_run=dry_run, warn=warn)

    def reading(self, *, required: bool) -> Secret:
        """The personal key, or "" if it is not required. Raises UsageError."""
        read = config.required_personal_key if required else config.personal_key
        return self.personal or read(self.files.personal_key_file)
