"""Ed25519 signatures of receipts, with the package `cryptography`, which the extra `backcast[sign]` installs."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from pipeline.errors import UsageError

_HINT = "make one with: openssl genpkey -algorithm ed25519 -out receipt.key"
_PUBLIC = "write that of a private key: openssl pkey -in receipt.key -pubout -out receipt.pub"


def sign(content: bytes, key_file: Path) -> tuple[str, str]:
    """The public key and the signature (base64 of 32 and 64 bytes), by the private key in a file.

    The key is PEM (PKCS #8) or OpenSSH, without a passphrase. Raises UsageError.
    """
    key = _private_key(key_file)
    return _text(key.public_key().public_bytes_raw()), _text(key.sign(content))


def is_valid(content: bytes, public_key: str, signature: str) -> bool:
    """Whether the private key of `public_key` made this signature for this content."""
    try:
        raw = base64.b64decode(public_key, validate=True)
        if len(raw) != 32 or _is_weak(raw):
            return False
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(base64.b64decode(signature, validate=True), content)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def read_public_key(file: Path) -> str:
    """The public key in a file (PEM or OpenSSH; for a private key, its public key) as `sign` writes it.

    Raises UsageError.
    """
    content = _content(file)
    if b"PRIVATE KEY" in content:
        return _text(_private_key(file).public_key().public_bytes_raw())
    try:
        key = load_ssh_public_key(content) if content.startswith(b"ssh-") else load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{file} has no public key in PEM or OpenSSH form", hint=_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise _other_kind(file)
    if _is_weak(key.public_bytes_raw()):
        raise UsageError(f"{file} has a public key that accepts anybody's signatures (small order)", hint=_HINT)
    return _text(key.public_bytes_raw())


_PRIME = 2**255 - 19
_SIGN_BIT = 1 << 255


def _is_weak(public_key: bytes) -> bool:
    """Whether a public key is a point whose order divides 8, or is not encoded as RFC 8032 requires.

    Anybody can make a signature for such a point without a private key. On the curve -x² + y² = 1 + dx²y² with
    d = -121665/121666, the points of order 1 and 2 have y² = 1, those of order 4 y = 0; one of order 8 doubles to
    y = 0, so its dy⁴ + 2y² - 1 is 0.
    """
    y = int.from_bytes(public_key, "little") & ~_SIGN_BIT
    square = y * y % _PRIME
    doubled = 121665 * square * square - 2 * 121666 * square + 121666
    return y >= _PRIME or square * (square - 1) * doubled % _PRIME == 0


def _private_key(file: Path) -> Ed25519PrivateKey:
    content = _content(file)
    try:
        is_ssh = b"OPENSSH PRIVATE KEY" in content
        key = load_ssh_private_key(content, None) if is_ssh else load_pem_private_key(content, None)
    except TypeError:
        raise UsageError(f"{file}: the key has a passphrase", hint=f"give a key without one; {_HINT}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{file} has no private key in PEM or OpenSSH form", hint=_HINT) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _other_kind(file)
    return key


def _other_kind(file: Path) -> UsageError:
    return UsageError(f"{file} has a key that is not Ed25519", hint=_HINT)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from None


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
