"""The pytest plugin on tests that really leak and really fill a cache."""

from __future__ import annotations

from typing import Any

import pytest

LEAKS = """
    import pytest
    kept = []

    @pytest.mark.lowtide(no_leak=True)
    def test_leaks(lowtide):
        for _ in range(60):
            with lowtide.step():
                kept.append(bytearray(2_000_000))
"""


def run(suite: pytest.Pytester, code: str) -> pytest.RunResult:
    suite.makepyfile(code)
    return suite.runpytest_subprocess("-q", "--strict-markers", timeout=60)


def test_a_leak_fails_with_the_verdict_as_its_message(suite: pytest.Pytester) -> None:
    result = run(suite, LEAKS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Leak: the floor of memory rises by 1.9* MiB per step*", "*Evidence*60 samples*", "*FAIL*no-leak*leak:*"]
    )
    assert "curve.json" not in result.stdout.str()


def test_a_cache_that_fills_passes(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        cache = {}

        @pytest.mark.lowtide(no_leak=True, max_range="100MB", examples=20, batch=1)
        def test_fills(lowtide):
            for step in range(80):
                with lowtide.step():
                    cache.setdefault(step % 20, bytearray(2_000_000))
        """,
    )
    result.assert_outcomes(passed=1)


def test_steady_work_passes_and_a_bare_mark_is_the_leak_gate(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.lowtide
        def test_steady(lowtide):
            for _ in range(60):
                bytearray(2_000_000)
                lowtide.step()
            assert lowtide.verdict().group == "flat"
        """,
    )
    result.assert_outcomes(passed=1)


def test_gates_on_numbers_fail_by_themselves(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        cache = {}

        def fill(lowtide):
            for step in range(60):
                with lowtide.step():
                    cache.setdefault(step % 20, bytearray(2_000_000))

        @pytest.mark.lowtide(max_range="10MB")
        def test_moves_too_much(lowtide):
            cache.clear()
            fill(lowtide)

        @pytest.mark.lowtide(max_range="10MB", steps="30..")
        def test_is_still_later(lowtide):
            cache.clear()
            fill(lowtide)

        @pytest.mark.lowtide(max="1MB")
        def test_is_too_large(lowtide):
            fill(lowtide)

        @pytest.mark.lowtide(fits="20MB")
        def test_does_not_fit(lowtide):
            cache.clear()
            fill(lowtide)
        """,
    )
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(
        ["*FAILED*test_moves_too_much*", "*FAILED*test_is_too_large*", "*FAILED*test_does_not_fit*"]
    )


def test_a_test_without_steps_is_read_by_time(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest, time

        @pytest.mark.lowtide(max_range="20MB")
        def test_spikes():
            block = bytearray(80_000_000)
            time.sleep(0.2)

        @pytest.mark.lowtide(max_range="20MB")
        def test_is_calm():
            time.sleep(0.2)
        """,
    )
    result.assert_outcomes(failed=1, passed=1)


def test_too_early_is_a_failure_unless_it_is_allowed(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.lowtide
        def test_one_step(lowtide):
            lowtide.step()

        @pytest.mark.lowtide(too_early="pass")
        def test_one_step_will_do(lowtide):
            lowtide.step()
        """,
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*oo early*"])


def test_a_test_that_fails_by_itself_keeps_its_own_message(suite: pytest.Pytester) -> None:
    result = run(suite, LEAKS + "            assert len(kept) < 30\n")
    result.assert_outcomes(failed=1)
    assert "assert 30 < 30" in result.stdout.str()
    assert "Leak" not in result.stdout.str()


def test_a_gate_nobody_knows_is_an_error_not_a_pass(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.lowtide(no_leaks=True)
        def test_typo(lowtide):
            lowtide.step()
        """,
    )
    assert result.ret != 0
    assert "no_leaks is not known" in result.stdout.str() + result.stderr.str()


def test_the_mark_of_a_class_and_of_its_test_add_up(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.lowtide(max="1MB")
        class TestAll:
            def test_small(self, lowtide):
                lowtide.step()

            @pytest.mark.lowtide(max="50GB")
            def test_large(self, lowtide):
                lowtide.step()
        """,
    )
    result.assert_outcomes(failed=1, passed=1)


def test_less_than_an_arena_of_growth_is_noise_unless_it_is_asked_for(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        kept = []

        def grow(lowtide, size):
            for _ in range(60):
                with lowtide.step():
                    kept.append(bytes(size))

        @pytest.mark.lowtide(no_leak=True)
        def test_keeps_a_little(lowtide):
            grow(lowtide, 8_000)

        @pytest.mark.lowtide(no_leak=True, ignore_below="50kB")
        def test_keeps_a_little_too_much(lowtide):
            grow(lowtide, 8_000)

        @pytest.mark.lowtide(no_leak=True)
        def test_keeps_much(lowtide):
            grow(lowtide, 80_000)
        """,
    )
    result.assert_outcomes(failed=2, passed=1)


def test_the_fixture_itself_does_not_grow(lowtide: Any) -> None:
    for _ in range(3000):
        with lowtide.step():
            pass
    rss = lowtide.curve()["y"]
    assert rss[-1] - rss[100] < 100_000
