"""A server that speaks S3 in the process of the tests, with a bucket for media."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer
from pydantic import SecretStr

from schemas.social.media_origin import Bucket
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = "media"
_PREFIX: Final = "here/"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The endpoint of an S3 server that has the bucket."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    # its first request imports it
    httpx.put(f"{endpoint}/{_NAME}", trust_env=False, timeout=patient(20)).raise_for_status()
    yield endpoint
    server.stop()


def there(endpoint: str) -> Bucket:
    return Bucket(
        url=f"s3://{_NAME}/{_PREFIX.rstrip('/')}", endpoint=endpoint, region="us-east-1", key_id="id", key="key"
    )


def settings_of(endpoint: str) -> dict[str, object]:
    """What an installation says whose media are there."""
    place = there(endpoint)
    return {
        "media_bucket": place.url,
        "media_bucket_endpoint": endpoint,
        "media_bucket_key_id": place.key_id,
        "media_bucket_key": SecretStr(place.key),
    }


def put_there(key: str, data: bytes) -> None:
    """Past the server, which takes milliseconds for each."""
    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(_NAME, f"{_PREFIX}{key}", data)


def keys_there() -> list[str]:
    """What is in the bucket."""
    found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[_NAME].keys
    return [key.removeprefix(_PREFIX) for key in found]
