"""Session recordings: one method an operation (docs/know/service.md#session-recordings)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.management import operations
from pipeline.management.listing import Listing, read_as
from pipeline.management.models import Page, SessionRecording, SessionRecordingWrite, SharingConfiguration

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient


class SessionRecordings:
    """The session recordings of the client's project."""

    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    def list(self, *, limit: int | None = None, offset: int | None = None) -> Listing[SessionRecording]:
        """All of them; `limit` is the size of a page, `offset` where the first one starts."""
        query = {"limit": limit, "offset": offset}
        return Listing(self._client, operations.LIST_RECORDINGS, Page[SessionRecording], query)

    def retrieve(self, id: str) -> SessionRecording:
        """The whole record."""
        return read_as(SessionRecording, self._client.call(operations.RETRIEVE_RECORDING, id))

    def update(
        self, id: str, body: SessionRecordingWrite | Mapping[str, object] | bytes, *, put: bool = False
    ) -> SessionRecording:
        """Set `person`; the service itself takes `viewed` and `analyzed` too, by PUT as well
        (docs/know/service.md#session-recordings).

        What it answers: the recording, or `{"success": true}` as an object without any known field.
        """
        operation = operations.REPLACE_RECORDING if put else operations.UPDATE_RECORDING
        return read_as(SessionRecording, self._client.call(operation, id, body=body))

    def delete(self, id: str) -> None:
        """Delete for good."""
        self._client.call(operations.DELETE_RECORDING, id, gone_is_done=True)

    def sharing(self, recording_id: str) -> SharingConfiguration:
        """How it is shared. The access token opens the recording to whoever has it."""
        return read_as(SharingConfiguration, self._client.call(operations.SHARING, recording_id))

    def refresh_sharing(self, recording_id: str) -> SharingConfiguration:
        """Replace the access token: whoever has the old one loses access. Sent once; not in the contract."""
        return read_as(SharingConfiguration, self._client.call(operations.REFRESH_SHARING, recording_id))
