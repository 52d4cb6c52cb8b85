"""Row counts for which matrix products are batch-invariant."""

import logging
from collections.abc import Iterator

import pytest
import torch
from small_engine import decoder

from agentrl_components.engines.torch_engine import row_padding
from agentrl_components.engines.torch_engine.row_padding import ANY, RowCounts

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_batch_is_padded_to_the_next_permitted_row_count():
    assert [RowCounts(24, 12).padded(rows) for rows in (1, 24, 25, 36, 37)] == [24, 24, 36, 36, 48]
    assert [RowCounts(10, 4).padded(rows) for rows in (1, 12, 13)] == [12, 12, 16]
    assert [ANY.padded(rows) for rows in (1, 7)] == [1, 7]


def test_row_counts_with_different_results_are_detected():
    """A matrix of one row is a product with a vector: another kernel on every processor."""
    assert not row_padding.is_batch_invariant(RowCounts(1, 1), 96, 96, torch.float32)


def test_the_measured_row_counts_hold_for_counts_that_were_not_tried():
    shape = decoder(hidden=96, heads=3, kv_heads=1, width=32).shape
    kind = row_padding.row_counts(shape, torch.float32, CPU)
    weight = torch.randn(48, 96, generator=torch.Generator().manual_seed(7))
    inputs = torch.randn(1, 96, generator=torch.Generator().manual_seed(8))
    results = {
        bytes(row.numpy())
        for count in (5, 97, 111, 150, 500, 1000)
        for row in torch.nn.functional.linear(inputs.expand(kind.padded(count), 96), weight)
    }
    assert kind != ANY
    assert len(results) == 1


def test_with_several_threads_no_row_count_is_batch_invariant():
    torch.set_num_threads(2)
    assert row_padding.row_counts(decoder().shape, torch.float32, CPU) == ANY


def test_a_processor_without_batch_invariant_row_counts_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        found = row_padding.measured_row_counts(
            frozenset({(96, 96)}), torch.float32, (RowCounts(1, 1), RowCounts(2, 1))
        )
    assert found == ANY
    assert "not repeatable" in caplog.text
