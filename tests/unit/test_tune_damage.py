"""A state file that was changed after it was written is refused; an earlier version is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.storage.format import has_right_checksum
from drbqo_ray.tune_searcher import DRBQOSearch
from drbqo_ray.tune_searcher.state import DamagedState, decode_state, encode_state
from tests.support.tune_trials import ready, run

GOLDEN = Path(__file__).parents[1] / "golden" / "tune-state-1.json"


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture
def state(tmp_path):
    """The file of a search with results, failures and trials under way."""
    search = ready(seed=3, stop_when="loss < 0.01", points_to_evaluate=[{"x": 0.5}] * 8)
    search.set_max_concurrency(4)
    run(search, "abcdef")
    search.suggest("failed")
    search.on_trial_complete("failed", None, error=True)
    search.suggest("live")
    path = tmp_path / "state"
    search.save(str(path))
    return path


def restored(path):
    search = DRBQOSearch(n_folds=None)
    search.restore(str(path))
    return search


class TestDamage:
    def test_every_flip_of_a_single_bit_is_refused(self, state):
        content = state.read_bytes()
        assert len(content) > 1000
        for bit in range(8 * len(content)):
            with pytest.raises(DamagedState):
                decode_state(flipped(content, bit), "state")

    def test_a_refused_state_changes_nothing(self, state):
        content, search = state.read_bytes(), ready()
        run(search, "a")
        before = search.observations
        for bit in range(0, 8 * len(content), 1009):
            state.write_bytes(flipped(content, bit))
            with pytest.raises(DamagedState, match=str(state)):
                search.restore(str(state))
        assert search.observations == before
        assert run(search, "b") == run(ready(), "ab")[1:]

    def test_every_cut_is_refused(self, state):
        content = state.read_bytes()
        for length in range(len(content)):
            with pytest.raises(DamagedState):
                decode_state(content[:length], "state")

    @pytest.mark.parametrize("added", [b" ", b"\n", b"{}", b"\0"])
    def test_what_was_added_is_refused(self, state, added):
        content = state.read_bytes()
        for changed in (content + added, added + content):
            with pytest.raises(DamagedState):
                decode_state(changed, "state")

    def test_a_changed_value_is_refused_whoever_wrote_it(self, state):
        changed = json.loads(state.read_text())
        changed["problem"]["settings"]["seed"] = 4
        for separators in ((", ", ": "), (",", ":")):
            state.write_text(json.dumps(changed, separators=separators) + "\n")
            with pytest.raises(DamagedState):
                restored(state)

    def test_the_checksum_is_that_of_a_journal(self, state):
        content = state.read_bytes()
        assert has_right_checksum(content)
        stored = json.loads(content)
        del stored["crc"], stored["format"], stored["version"]
        assert encode_state(stored) == content

    def test_a_damaged_state_in_the_directory_of_a_run_gives_way_to_the_one_before(self, tmp_path):
        search = ready()
        for trial in "abc":
            run(search, trial)
            search.save_to_dir(str(tmp_path), "1")
        newest = max(tmp_path.glob("searcher-*"), key=lambda path: path.stat().st_mtime_ns)
        content = newest.read_bytes()
        for bit in [*range(0, 8 * len(content), 997), content.index(b"drbqo-tune") * 8]:
            newest.write_bytes(flipped(content, bit))
            assert DRBQOSearch.load(tmp_path).observations == search.observations[:2]

    @pytest.mark.parametrize(
        "part", ["saves", "problem", "live", "limit", "events", "queue", "best"]
    )
    def test_a_state_with_a_part_missing_is_refused_though_its_checksum_is_right(self, state, part):
        stored = json.loads(state.read_text())
        del stored[part]
        state.write_bytes(encode_state({k: v for k, v in stored.items() if k != "crc"}))
        with pytest.raises(DamagedState, match="state"):
            restored(state)

    def test_a_later_version_is_refused_by_its_name(self, state):
        state.write_bytes(encode_state({"version": 3}))
        with pytest.raises(InvalidInput, match=r"up to version 2\. Got 3"):
            restored(state)


class TestEarlierVersion:
    """Version 1 had no checksum."""

    def test_it_is_read_with_all_it_holds(self, tmp_path):
        (tmp_path / "state").write_bytes(GOLDEN.read_bytes())
        search, stored = restored(tmp_path / "state"), json.loads(GOLDEN.read_text())
        ends = [event for event in stored["events"] if event["event"] == "end"]
        assert [(o.id, o.score) for o in search.observations] == [
            (e["id"], e["score"]) for e in ends
        ]
        assert search.suggest("live") == {"x": 0.75, "net": {"width": 2}, "fold": 1}
        assert search.suggest("queued") == {"x": 0.125, "net": {"width": 7}, "fold": 2}
        assert list(search._live) == ["live", "queued"]
        assert search._live.limit == 4
        assert search._problem.to_dict() == stored["problem"]

    def test_it_is_saved_with_a_checksum_from_then_on(self, tmp_path):
        (tmp_path / "old").write_bytes(GOLDEN.read_bytes())
        search = restored(tmp_path / "old")
        search.save(str(tmp_path / "new"))
        assert has_right_checksum((tmp_path / "new").read_bytes())
        assert restored(tmp_path / "new").observations == search.observations

    def test_it_is_found_in_the_directory_of_a_run_under_its_earlier_name(self, tmp_path):
        (tmp_path / "searcher-state-1-a.json").write_bytes(GOLDEN.read_bytes())
        search = DRBQOSearch.load(tmp_path)
        assert len(search.observations) == 6
        run(search, "new")
        search.save_to_dir(str(tmp_path), "2")
        assert DRBQOSearch.load(tmp_path).observations == search.observations

    def test_damage_that_shows_is_refused_and_nothing_else_is_raised(self, tmp_path):
        content, path = GOLDEN.read_bytes(), tmp_path / "state"
        refused = 0
        for bit in range(0, 8 * len(content), 23):
            path.write_bytes(flipped(content, bit))
            try:
                restored(path)
            except DrbqoError:
                refused += 1
        assert refused > 100
