"""The pytest plugin: campaigns as tests, reproducers as tests, and what a failing case leaves.

Options begin with ``--kv-``. The campaign's settings are decided once, by the process that was
started, and handed to xdist's workers, so that all of them collect and run the same.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kv_canary_fuzz.reference import DOCUMENTED

from ..atomic_file import fault_of
from ..campaign.corpus import CorpusError
from ..campaign.profiles import Profile
from ..campaign.run_folder import CASE_SUFFIX
from ..campaign.settings import DomainName, SettingsError
from ..campaign.source_coverage import counting
from ..campaign.tenancy import FolderTaken, check_free
from ..findings.ledger import LedgerError
from ..findings.reproducer import ReproducerError
from ..isolation.loading import FLOOR_SECONDS, load_isolated, load_isolated_reference
from ..judging.check import CaseMismatch, assert_agrees, mismatch_within
from ..targets.builtin import load_reference, load_target, sanitized_name
from ..targets.devices import most_workers
from ..targets.target import Target, TargetError
from .progress_watch import ProgressWatch
from .pytest_campaign import SHARDS, CampaignPlan, ShardTest, finish_plan
from .replay_item import ReproducerFile

CALLERS_ERRORS = (
    TargetError,
    CorpusError,
    FolderTaken,
    LedgerError,
    ReproducerError,
    SettingsError,
)

PLAN = pytest.StashKey[CampaignPlan]()
SUMMARY = pytest.StashKey[list[str]]()
WATCH = pytest.StashKey[ProgressWatch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kv-canary", "fuzzing of kv-canary kernels")
    group.addoption("--kv-target", help="what is tested (default: the GPU's kernels or emulated)")
    group.addoption("--kv-reference", default="torch", help="what it is compared with")
    group.addoption(
        "--kv-domain",
        choices=[name.value for name in DomainName],
        default=DomainName.CLAIMED.value,
        help="what is generated (default: what the target claims)",
    )
    group.addoption("--kv-seconds", type=float, help="length of the campaign")
    group.addoption("--kv-cases", type=int, help="number of cases of the campaign")
    group.addoption("--kv-seed", type=int, help="seed of the campaign")
    group.addoption("--kv-out", type=Path, help="folder of the run")
    group.addoption("--kv-shrink-seconds", type=float, default=60.0, help="budget for each finding")
    group.addoption(
        "--kv-profile",
        default=Profile.PULL_REQUEST.value,
        choices=[name.value for name in Profile],
        help="what holds where nothing else is said (default: pull-request)",
    )
    group.addoption("--kv-corpus", type=Path, help="corpus: replayed first, and added to")
    group.addoption(
        "--kv-deadline",
        type=float,
        default=FLOOR_SECONDS,
        help="processor seconds that any launch may take",
    )
    group.addoption(
        "--kv-sanitize", action="store_true", help="the emulated build under sanitizers"
    )
    group.addoption("--kv-third", help="who says who stands alone (default: the scalar model)")
    group.addoption("--kv-sglang", type=Path, help="source tree that sglang's targets are from")
    group.addoption("--kv-patch", type=Path, help="unified diff for a copy of sglang's source")
    group.addoption(
        "--kv-coverage",
        action="store_true",
        help="say which lines and branches of the CUDA source are reached (target emulated)",
    )
    group.addoption("--kv-ledger", type=Path, help="file with the findings that are known")


def pytest_configure(config: pytest.Config) -> None:
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.stash[PLAN] = msgspec.json.decode(workerinput["kv_canary"], type=CampaignPlan)
        _count(config, fresh=False)
        return
    try:
        if config.option.kv_sanitize:
            config.option.kv_target = sanitized_name(config.option.kv_target or "auto")
        config.stash[PLAN] = CampaignPlan.of(config.option)
        _count(config, fresh=True)
        settings = config.stash[PLAN].settings
        contract = DOCUMENTED
        if config.option.kv_target:
            contract = load_target(settings.target).contract
        load_reference(settings.reference, contract)
    except CALLERS_ERRORS as error:
        raise pytest.UsageError(str(error)) from error
    except OSError as error:
        raise pytest.UsageError(fault_of(error)) from error


def _count(config: pytest.Config, *, fresh: bool) -> None:
    """Until the session ends, emulated targets count what they reach, where that is asked for.

    Then this process leaves the run's folder.
    """
    plan = config.stash[PLAN]
    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.callback(plan.leave)
    folder = plan.folder.source_counts if plan.settings.coverage else None
    stack.enter_context(counting(folder, fresh=fresh))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """``-n auto``: no more workers than the GPUs of ``--kv-target`` bear."""
    workers = yield
    if not config.option.kv_target:
        return workers
    try:
        most = most_workers(load_target(config.option.kv_target))
    except TargetError:  # said in one line when the plugin is configured
        return workers
    return workers if most is None else min(workers, most)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["kv_canary"] = msgspec.json.encode(node.config.stash[PLAN]).decode()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(CASE_SUFFIX):
        return ReproducerFile.from_parent(parent, path=file_path)
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kv_shard" in metafunc.fixturenames:
        metafunc.parametrize("kv_shard", range(SHARDS), indirect=True, ids="shard-{}".format)


@pytest.fixture
def kv_shard(request: pytest.FixtureRequest) -> ShardTest:
    """One shard of the campaign that the options describe; ``run()`` fails on a finding."""
    return ShardTest(request.config.stash[PLAN], request.param)


@pytest.fixture(scope="session")
def kv_target(request: pytest.FixtureRequest) -> Target:
    """The target that the options name."""
    settings = request.config.stash[PLAN].settings
    return load_isolated(settings.target, settings.deadline)


@pytest.fixture(scope="session")
def kv_agrees(request: pytest.FixtureRequest, kv_target: Target) -> Any:
    """``kv_agrees(case)`` fails where target and reference differ; for Hypothesis tests too."""
    settings = request.config.stash[PLAN].settings
    contract = kv_target.contract
    reference = load_isolated_reference(settings.reference, contract, settings.deadline)
    return lambda case: assert_agrees(case, kv_target, reference)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mismatch = mismatch_within(call.excinfo.value) if call.excinfo else None
    if mismatch is not None:
        report.sections.append(("kv-canary", _leave_reproducer(item, mismatch)))
    return report


def _leave_reproducer(item: pytest.Item, mismatch: CaseMismatch) -> str:
    plan = item.config.stash[PLAN]
    try:
        path = plan.shrink(mismatch.case, mismatch.verdict)
    except FolderTaken as error:
        return f"no reproducer: {error}"
    except OSError as error:
        return f"no reproducer: {fault_of(error)}"
    return f"replay: pytest {path}  or  kv-canary-fuzz replay {path}"


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    plan = config.stash[PLAN]
    if not plan.is_in:
        _look_at_folder(config, plan)
    watch = ProgressWatch(plan, lambda line: _say(config, line), _verbose(config))
    config.stash[WATCH] = watch
    watch.start()


def _look_at_folder(config: pytest.Config, plan: CampaignPlan) -> None:
    """Say what an earlier run was killed over, or that another one is in the folder."""
    try:
        check_free(plan.folder)
    except FolderTaken as error:
        raise pytest.UsageError(str(error)) from error
    for line in plan.folder.left_in_flight():
        _say(config, line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    watch = config.stash.get(WATCH, None)
    if watch is None:
        return
    watch.stop()
    interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
    lines, gone = finish_plan(
        config.stash[PLAN],
        lambda line: _say(config, line) if _verbose(config) else None,
        interrupted=interrupted,
    )
    config.stash[SUMMARY] = lines
    if gone and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _verbose(config: pytest.Config) -> bool:
    return config.get_verbosity() > 0


def _say(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(line)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(SUMMARY, [])
    if lines:
        terminalreporter.section("kv-canary campaign")
        for line in lines:
            terminalreporter.write_line(line)
