"""Paths as tensors: padding, and parts of a batch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.train.ppo.path_batch import PathBatch, TokenPath, collate

ids = st.lists(st.integers(1, 9), min_size=1, max_size=5)
paths = st.lists(
    st.builds(TokenPath, prompt_ids=ids, completion_ids=ids, outcome=st.floats(0, 1, width=32)),
    min_size=1,
    max_size=5,
)


def batch_of(some: list[TokenPath]) -> PathBatch:
    return collate(some, pad_id=0, device=torch.device("cpu"))


def test_two_paths_by_hand():
    """Prompts 1 2 and 3, completions 4 and 5 6, padded with 0 on the outer sides."""
    batch = batch_of(
        [
            TokenPath(prompt_ids=[1, 2], completion_ids=[4], outcome=1.0),
            TokenPath(prompt_ids=[3], completion_ids=[5, 6], outcome=0.0),
        ]
    )
    assert batch.tokens_BS.tolist() == [[1, 2, 4, 0], [0, 3, 5, 6]]
    assert batch.mask_BT.tolist() == [[True, False], [True, True]]
    assert batch.completions.tolist() == [[4, 0], [5, 6]]
    inputs = batch.model_inputs()
    assert inputs["attention_mask"].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]
    assert inputs["position_ids"].tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]


@given(paths, st.data())
def test_a_part_equals_the_batch_of_its_paths(all_paths, data):
    """For any paths in any order; columns that are padding in all of them are dropped."""
    places = data.draw(
        st.lists(st.integers(0, len(all_paths) - 1), min_size=1, max_size=5), label="places"
    )
    part = batch_of(all_paths).part(torch.tensor(places))
    alone = batch_of([all_paths[place] for place in places])
    for name in PathBatch.__dataclass_fields__:
        assert torch.equal(getattr(part, name), getattr(alone, name)), name


@given(paths, st.integers(1, 5))
def test_join_inverts_passes(all_paths, size):
    """Every path is in one pass, sorted by length; joined, the passes give the whole batch."""
    batch = batch_of(all_paths)
    passes = batch.passes(size)
    assert all(len(places) <= size for places in passes)
    order = torch.cat(passes).tolist()
    assert sorted(order) == list(range(len(all_paths)))
    lengths = [len(all_paths[place].completion_ids) for place in order]
    assert lengths == sorted(lengths)
    joined_BT = batch.join(passes, [batch.part(places).completions for places in passes])
    assert torch.equal(joined_BT, batch.completions)
