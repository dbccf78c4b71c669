import pytest

from tests.unit.publish.topics import Topics, cluster_for_tests


@pytest.fixture(scope="session")
def kafka_address():
    with cluster_for_tests() as address:
        yield address


@pytest.fixture
def topics(kafka_address):
    return Topics(kafka_address)
