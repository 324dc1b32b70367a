"""Both models reproduce the 160 golden vectors (contract, section 10)."""

from __future__ import annotations

from kv_canary_fuzz.reference import run_verify_batch, run_write_batch
from kv_canary_fuzz.reference.golden import CanaryState


def test_file_holds_eighty_launches_of_each_kernel(golden_launches):
    kernels = [golden.kernel for golden in golden_launches]

    assert (kernels.count("write"), kernels.count("verify")) == (80, 80)


def test_every_after_state_alone(golden_launches, run):
    for golden in golden_launches:
        launch = golden.build()
        assert CanaryState.of(launch.context) == golden.before

        run(launch)

        assert CanaryState.of(launch.context) == golden.after, golden.index


def test_every_after_state_in_one_batch_through_one_storage(golden_launches, pack):
    for kernel, run_batch in (("write", run_write_batch), ("verify", run_verify_batch)):
        chosen = [golden for golden in golden_launches if golden.kernel == kernel]
        launches = pack([golden.build() for golden in chosen])

        run_batch(launches)

        assert [CanaryState.of(launch.context) for launch in launches] == [
            golden.after for golden in chosen
        ]


def test_every_after_state_in_one_batch_of_scattered_tensors(golden_launches):
    chosen = [golden for golden in golden_launches if golden.kernel == "write"]
    launches = [golden.build() for golden in chosen]

    run_write_batch(launches)

    assert [CanaryState.of(launch.context) for launch in launches] == [g.after for g in chosen]


def test_produced_rows_satisfy_the_ring_rule_in_whatever_order_they_are_stored(golden_launches):
    for golden in golden_launches:
        launch = golden.build()
        run_batch = run_write_batch if golden.kernel == "write" else run_verify_batch
        rows = [tuple(row) for row in run_batch([launch]).values.tolist()]
        grown = golden.after.violation_write_index - golden.before.violation_write_index
        assert len(rows) == grown
        start = max(golden.before.violation_write_index, 0)
        ring = launch.context.violation_ring[start : start + grown]
        ring.copy_(ring.flip(0))

        assert golden.disagreements(launch.context, rows) == ()


def test_disagreements_name_what_differs(golden_launches):
    golden = golden_launches[0]
    launch = golden.build()

    wrong = golden.disagreements(launch.context, ())

    assert wrong == (
        "canary_buf",
        "violation_write_index",
        "slot_run_counter",
        "kernel_run_counter",
    )
