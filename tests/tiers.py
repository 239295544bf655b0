"""Which target runs which tests, and which tests may be run again: the only place that says so.

`make test` has whatever is not listed here, and one test of each real component; `make test-system`
has the rest but for `LONG`: what `.ci/run`, which has 90 minutes on whatever machine, leaves to
`make test-long`. Where some parameters of a test take long, these are marked `system` or `long` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# What pytest's option `--tier` may be, and the Makefile's targets.
TIERS: Final = ("test", "system", "long")

# Folders, files and tests below `tests/` whose point is another process or a real component, or that
# compute for tens of seconds (`make test` is to take five minutes on two cores), and why.
SYSTEM: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agent/test_on_a_board.py": "the agent over a connection",
        "agent/test_recording.py": "interpreters of old Pythons, as on a board",
        "agent/test_tracing.py": "interpreters of old Pythons, as on a board",
        "analysis/regression/test_fewer.py::test_energies_of_more_than_a_thousand_kinds_lie_within_their_intervals": (
            "computes for seconds: a thousand kinds"
        ),
        "analysis/regression/test_regress.py": "computes for long: many trainings of known energy",
        "cli/test_agent.py": "interpreters of old Pythons, as on a board",
        "cli/test_ahead.py": "trains through the command line",
        "cli/test_ceilings.py::test_ceilings_are_measured_kept_and_written": (
            "arrays far larger than the caches"
        ),
        "cli/test_commands.py": "trains through the command line, ends it by Ctrl-C and kill -9",
        "cli/test_errors.py::test_a_script_without_torch_is_profiled_without_torch": (
            "an interpreter without a library"
        ),
        "cli/test_errors.py::test_doctor_works_without_any_extra_and_prints_one_document": (
            "an interpreter without a library"
        ),
        "cli/test_errors.py::test_help_works_without_any_extra": "an interpreter without a library",
        "cli/test_errors.py::test_what_a_training_process_refuses_is_one_line_too": (
            "a training process of its own"
        ),
        "cli/test_live.py": "a viewer beside a recording",
        "cli/test_memory_command.py": "trains through the command line",
        "cli/test_predict.py": "captures networks through the command line",
        "cli/test_run_conditions.py": "trains through the command line",
        "cli/test_suite.py::test_the_suite_holds_every_workload_with_every_field": "counts every workload",
        "cli/test_suite.py::test_all_sixteen_workloads_of_the_paper_are_there_with_its_row": "counts every workload",
        "cli/test_suite.py::test_operations_at_the_published_size_are_those_of_the_literature": "counts every workload",
        "cli/test_suite.py::test_the_table_in_the_documents_is_what_the_command_counts": "counts every workload",
        "cli/test_suite.py::test_the_suite_reads_as_a_table": "counts every workload",
        "cli/test_sweep.py": "sweeps through the command line",
        "cli/test_targets.py": "an ssh server",
        "cli/test_ten_tasks.py": "trains through the command line",
        "tuning/test_many_spaces.py": "tunes a hundred drawn spaces, and searches some exhaustively",
        "tuning/test_real.py": "trains in processes of its own, and through the command line",
        "cli/test_without_torch.py": "an environment without torch",
        "cli/test_plan.py": "captures networks, and trains, through the command line",
        "conditions/test_canary.py": "records with canaries",
        "conditions/test_crowding.py::test_a_callback_warns_of_others_before_the_first_step": (
            "programs that keep the cores busy"
        ),
        "conditions/test_crowding.py::test_a_script_is_warned_of_others_when_its_training_begins": (
            "a script under its own process, programs that keep the cores busy"
        ),
        "daily": "trains for days, killed between them",
        "docs/test_examples.py": "trains, and imports, in processes of its own",
        "docs/test_python.py::test_the_examples_run_as_they_stand": "trains and sweeps",
        "engines/test_doors.py::test_a_training_here_does_not_pass_through_the_room_for_other_devices": (
            "trainings, each in a process of its own"
        ),
        "engines/test_mnn_training.py": "exports networks, and trains them with torch in float64",
        "engines/test_executorch.py": "exports networks, and trains them with torch in float64",
        "engines/test_opencl_training.py": "exports networks, and trains them with torch in float64",
        "engines/test_mlx.py": "exports networks, and trains them with torch in float64",
        "engines/test_onnxruntime_training.py": "exports networks, and trains them with torch in float64",
        "engines/test_operations_add_up.py": "exports networks, and records trainings of them",
        "engines/test_fake_tensors.py": "torch's fake tensors, which load its compiler",
        "engines/test_task_capture.py": "captures networks",
        "engines/test_torch_capture.py": "captures networks",
        "engines/test_unusual_modules.py": "captures networks",
        "engines/test_without_compiler.py": "captures networks, each in a process of its own",
        "engines/test_torch_compile.py::test_engine_and_option_are_one_configuration_which_tells_what_compiling_took": (
            "compiles models"
        ),
        "engines/test_torch_compile.py::test_ten_steps_are_torchs_in_float64": "compiles models",
        "engines/test_torch_compile.py::test_compiled_max_pooling_never_scatters_its_gradient": (
            "loads torch's compiler"
        ),
        "engines/test_torch_compile.py::test_what_was_not_tried_to_its_end_is_said_and_not_refused": (
            "loads torch's compiler"
        ),
        "engines/test_torch_precision.py::test_a_compiled_model_trains_as_the_plain_one": (
            "compiles models"
        ),
        "exporting/test_round_trip.py": "computes for long: traces of many runs",
        "exporting/test_trace_processor.py": "Perfetto's own reader, and its page in a browser",
        "faults": "processes killed, disks full, runs of other users",
        "fleet/phone": "adb, and the shell of phones",
        "fleet/remote": "an ssh server",
        "fleet/test_cluster.py": "a Dask cluster",
        "fleet/test_fleet.py::test_two_boards_at_once_one_of_them_killed_in_the_middle": "ssh servers",
        "fleet/test_limits.py": "children that run out of memory",
        "fleet/test_listening.py": "children that are listened to",
        "fleet/test_measuring.py": "sweeps killed by other processes",
        "fleet/test_memory_of_workers.py": "a training with workers of its own",
        "fleet/test_place.py": "sweeps beside each other",
        "fleet/test_sweep_full_disk.py": "a full disk",
        "footprint/test_life.py": "memory of a process while it trains",
        "footprint/test_resident.py": "memory of a process",
        "foreground/test_foreground_run.py": "a job beside a training",
        "governing/test_governed_run.py": "trains on emulated boards",
        "gpu/test_processes.py": "trainings killed, forked, several at once",
        "gpu/test_commands.py": "every command in processes of its own, on a played machine",
        "gpu/test_traced_steps.py::test_each_of_forty_trainings_is_told_as_it_was": (
            "computes for long: trainings on a played GPU"
        ),
        "gpu/test_programs.py": "computes for long: energy of five trainings by regression",
        "gpu/test_truth_page.py": "trains in a process of its own, with a sampler",
        "integrations/test_lightning.py": "Lightning's trainer beside the real sampler",
        "integrations/test_transformers.py": "the trainer of transformers beside the real sampler",
        "labeling/test_cost.py::test_frames_of_the_foreground_job": "a job beside the real sampler",
        "labeling/test_estimator_checks.py": "fits some hundred labelers",
        "labeling/test_auto_labeler.py::test_known_samples_are_called_unknown_about_as_often_as_stated": (
            "computes for long: labels eight streams"
        ),
        "labeling/test_auto_labeler.py::test_after_classes_were_swapped_further_labels_bring_the_accuracy_back": (
            "computes for long: follows a stream that changes"
        ),
        "labeling/test_auto_labeler.py::test_memory_stays_the_same_however_much_comes": (
            "computes for long: thousands of samples"
        ),
        "labeling/test_state.py::test_it_goes_on_exactly_as_it_would_have": (
            "computes for long: labels two streams"
        ),
        "matrix": "every command on recorded runs",
        "opencl/test_ceilings_here.py": "measures a device through the command line",
        "predicting/test_like_runs.py": "captures networks",
        "predicting/test_module.py": "captures networks",
        "planning/test_study.py::test_workers_give_the_same": "a Dask cluster",
        "profiling": "scripts under a recorder",
        "querying/test_limits.py": "queries in processes of their own, killed at work",
        "recorder": "records with the real sampler",
        "reports/pages/paper/test_figures_in_browser.py": "a browser",
        "reports/pages/test_first_screen_in_browser.py": "a browser",
        "reports/pages/test_hostile_pages.py::test_a_browser_runs_none_of_it": "a browser",
        "reports/pages/test_images_in_browser.py": "a browser",
        "reports/pages/test_in_browser.py": "a browser",
        "reports/pages/test_lanes_in_browser.py": "a browser",
        "reports/pages/test_notebook.py::test_a_browser_draws_it_in_both_themes_without_a_complaint": (
            "a browser"
        ),
        "reports/pages/test_tables_in_browser.py": "a browser",
        "run/imported/test_trace_and_telemetry.py": "computes for long: many logs of known clocks",
        "run/test_true_energy.py": "computes for long: many trainings of known energy",
        "sensors/test_android.py": "adb, and the shell of phones",
        "sampling/test_attendant.py": "samplers killed and started again",
        "sampling/test_child.py": "the real sampler",
        "sampling/test_collector.py": "the real collector",
        "sampling/test_hanging.py": "processes that hang",
        "serving": "a server and its children, a browser",
        "store/test_conversion_killed.py": "a conversion killed at work",
        "targets/test_emulation.py": "emulated boards that are recorded",
        "targets/test_phone.py": "adb",
        "targets/test_replay.py": "recordings that are played while a real loop is recorded",
        "tracing/test_torch_memory.py": "trains on, with every allocation followed",
        "training": "trains with the real sampler",
        "analysis/test_alignment_load.py": ("computes for long: many clocks of known offset"),
        "reports/test_imported.py": ("computes for long: every front of imported runs"),
        "run/imported/test_by_regression.py": ("computes for long: many logs of known clocks"),
        "run/test_below_sampling.py": ("computes for long: many trainings of known energy"),
        "run/test_conditions.py::test_the_main_figures_hold_all_clean_steps_unless_asked_otherwise": (
            "computes for long"
        ),
        "run/test_conditions.py::test_throttled_steps_are_marked_with_the_evidence": (
            "computes for long"
        ),
        "workloads/test_language_data.py::test_without_official_files_a_stand_in_says_what_it_is": (
            "reads the docstrings of all libraries"
        ),
        "workloads/test_training.py::test_a_batch_of_images_has_the_shape_in_the_facts": (
            "steps of every network of the suite"
        ),
        "workloads/test_training.py::test_a_seed_repeats_the_losses_and_another_does_not": (
            "steps of every network of the suite"
        ),
        "workloads/test_training.py::test_gradients_of_several_batches_of_one_sample_add_up_to_one_step": (
            "steps of every network of the suite"
        ),
        "workloads/test_vision.py::test_a_batch_of_one_goes_through_from_the_least_size_on_and_no_smaller_one": (
            "steps of every network of the suite"
        ),
        "watching/test_live_recordings.py": "a watcher beside a recording",
        "workloads/test_dqn.py::test_it_learns_in_fewer_bits": "trains on",
        "workloads/test_language.py::test_a_small_batch_of_text_is_learnt_by_heart": "trains on",
        "workloads/test_language.py::test_two_batches_make_a_step_in_each_precision": (
            "large networks in each precision"
        ),
        "workloads/test_mobile.py": "trains on",
        "workloads/test_names.py": "interpreters without a library",
        "workloads/test_tiny.py::test_a_small_batch_is_learnt_by_heart": "trains on",
        "workloads/test_training.py::test_a_step_in_less_precision_has_a_finite_loss": (
            "steps of every network of the suite"
        ),
        "workloads/test_training.py::test_two_steps_of_two_samples_move_every_trainable_parameter_by_its_gradient": (
            "steps of every network of the suite"
        ),
        "workloads/test_vision.py::test_googlenet_stays_finite": "trains on",
        "workloads/test_vision.py::test_a_small_batch_is_learnt_by_heart": "trains on",
    }
)

# Of these the tests that alone take minutes on a slow machine. Networks and commands of which a test takes
# long are marked beside it.
LONG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "analysis/regression/test_regress.py::test_intervals_hold_over_many_trials": "computes for minutes",
        "docs/test_examples.py::test_a_build_fails_only_where_the_interval_bears_it_out": "two trainings, each in a process of its own",
        "docs/test_examples.py::test_a_trace_of_a_profiler_with_the_log_of_tegrastats_beside_it": (
            "an import of ten minutes of samples"
        ),
        "gpu/test_commands.py::test_run_with_a_goal": "a whole training",
        "gpu/test_commands.py::test_run_that_sustains": "a whole training",
        "gpu/test_commands.py::test_run_beside_a_foreground_job": "a whole training beside a job",
        "gpu/test_commands.py::test_daily": "a training, and a day of another",
        "tuning/test_real.py::test_a_tune_writes_settings_that_run_applies": "a tune to its end",
    }
)

# Of these the tests that `make test` has as well: one of each real component, one of each long computation.
SMOKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agent/test_recording.py::test_marked_steps_become_a_run_with_the_times_of_the_script_s_own_clock": (
            "the agent under old Pythons"
        ),
        "analysis/regression/test_regress.py::test_every_kind_is_in_one_group_and_energies_add_up": (
            "energies of operations by regression"
        ),
        "cli/test_commands.py::test_run_prints_one_document_with_a_run_for_each_batch_size": (
            "the command line and the training process that it starts"
        ),
        "exporting/test_round_trip.py::test_a_round_trip_adds_no_note_and_leaves_no_operation_out": (
            "an export that is read again"
        ),
        "faults/test_killed.py::test_a_killed_sampler_is_started_again_and_the_gap_is_told": (
            "a sampler that is killed"
        ),
        "fleet/phone/test_command.py::test_a_training_on_the_phone_becomes_a_run_with_its_steps_and_nothing_is_left": (
            "adb"
        ),
        "fleet/remote/test_ssh.py::test_a_command_ends_with_its_output_its_errors_and_its_code": "ssh",
        "fleet/test_cluster.py::test_a_worker_within_this_process_measures_and_hands_over_its_run": (
            "Dask"
        ),
        "recorder/test_recorder.py::test_a_recorded_loop_becomes_a_run": "the sampler",
        "recorder/test_tracing.py::test_traced_steps_have_operations_in_their_layers_and_phases": (
            "the tracer beside the sampler"
        ),
        "reports/pages/test_in_browser.py::test_charts_are_drawn_without_a_complaint_or_a_request": (
            "a browser"
        ),
        "reports/test_imported.py::test_an_alignment_of_unknown_quality_is_said_to_be_so": (
            "a page and a terminal of an imported run"
        ),
        "run/imported/test_by_regression.py::test_a_clock_that_drifts_is_set_to_its_rate": (
            "energies of an import"
        ),
        "run/test_true_energy.py::test_an_operation_alone_in_its_phase_and_layer_has_one_energy_in_all_tables": (
            "energies of operations, of the whole way"
        ),
        "sampling/test_collector.py::test_rows_of_push_sources_go_to_journals_like_those_of_the_sampler": (
            "the collector"
        ),
        "serving/test_pages.py::test_the_list_has_every_run_and_says_which_are_damaged": "the server",
        "targets/test_emulation.py::test_closing_ends_the_mover_and_removes_the_tree": "an emulated board",
        "tracing/test_torch_memory.py::test_parameters_gradients_and_adams_two_moments_are_counted": (
            "memory of a step by category"
        ),
    }
)

# Tests that may be run again, twice at most, when they fail: at most MOST_RERUNS, each with what
# outside of the code makes it fail. A race in the code or in the test is mended instead.
MOST_RERUNS: Final = 20
MAY_RERUN: Final[Mapping[str, str]] = MappingProxyType({})


def listed(place: str, places: Mapping[str, str]) -> bool:
    """Whether a test or a file (its path below `tests/`) is listed, or what it lies in."""
    return any(place == one or place.startswith((f"{one}/", f"{one}::")) for one in places)


def tiers_of(place: str, source: str = "") -> tuple[str, ...]:
    """The tiers that may have a test in a file, which may mark some of its own."""
    whole = listed(place, SYSTEM)
    has = {
        "test": not whole or _parts(place, SMOKE),
        "system": whole or _parts(place, SYSTEM) or "mark.system" in source,
        "long": _parts(place, LONG) or "mark.long" in source,
    }
    return tuple(tier for tier in TIERS if has[tier])


def _parts(place: str, tests: Mapping[str, str]) -> bool:
    """Whether tests of a file are listed, one by one."""
    return any(test.startswith(f"{place}::") for test in tests)
