"""gguftool: inspect, check, repair, plan and launch GGUF models.

Everything a command can do is one public function here, over a path, an address (``hf://…``) or an open `Model`;
docs/library.md shows them. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguftool.version import __version__ as __version__

if TYPE_CHECKING:
    # For checkers of types, which do not see what `__getattr__` finds; a test holds the lists together.
    from gguftool.api.compat import Compatibility as Compatibility
    from gguftool.api.compat import compat as compat
    from gguftool.api.converted import Converted as Converted
    from gguftool.api.converted import check_converted as check_converted
    from gguftool.api.converted import convert as convert
    from gguftool.api.diagnosed import Cause as Cause
    from gguftool.api.diagnosed import Diagnosed as Diagnosed
    from gguftool.api.diagnosed import diagnose as diagnose
    from gguftool.api.edits import apply_patch as apply_patch
    from gguftool.api.edits import edit as edit
    from gguftool.api.edits import make_patch as make_patch
    from gguftool.api.edits import plan_edit as plan_edit
    from gguftool.api.edits import recover as recover
    from gguftool.api.edits import undo as undo
    from gguftool.api.glance import Glance as Glance
    from gguftool.api.glance import glance as glance
    from gguftool.api.health import Health as Health
    from gguftool.api.health import doctor as doctor
    from gguftool.api.imatrix import ImatrixReport as ImatrixReport
    from gguftool.api.imatrix import examine_imatrix as examine_imatrix
    from gguftool.api.imatrix import merge_imatrix as merge_imatrix
    from gguftool.api.known import known_text as known_text
    from gguftool.api.launch import Served as Served
    from gguftool.api.launch import launch as launch
    from gguftool.api.launch import plan_launch as plan_launch
    from gguftool.api.logs import LogCheck as LogCheck
    from gguftool.api.logs import check_log as check_log
    from gguftool.api.mix import Mixed as Mixed
    from gguftool.api.mix import mix as mix
    from gguftool.api.models import diff as diff
    from gguftool.api.models import fixes as fixes
    from gguftool.api.models import hash_tensors as hash_tensors
    from gguftool.api.models import memory as memory
    from gguftool.api.models import misfits as misfits
    from gguftool.api.models import overview as overview
    from gguftool.api.models import predict as predict
    from gguftool.api.plan import Planned as Planned
    from gguftool.api.plan import plan as plan
    from gguftool.api.prepare import Prepared as Prepared
    from gguftool.api.prepare import prepare as prepare
    from gguftool.api.pulled import Pulled as Pulled
    from gguftool.api.pulled import pull as pull
    from gguftool.api.push import Pushed as Pushed
    from gguftool.api.push import push_check as push_check
    from gguftool.api.render import Prompt as Prompt
    from gguftool.api.render import compare_templates as compare_templates
    from gguftool.api.render import render as render
    from gguftool.api.report import Reported as Reported
    from gguftool.api.report import report as report
    from gguftool.api.serving import serve_folder as serve_folder
    from gguftool.api.stored import Stored as Stored
    from gguftool.api.stored import stored_models as stored_models
    from gguftool.api.tokenizer import compare_tokenizers as compare_tokenizers
    from gguftool.api.translated import translate as translate
    from gguftool.api.translated import translate_script as translate_script
    from gguftool.build.judged import Check as Check
    from gguftool.build.quantize import Quantized as Quantized
    from gguftool.build.quantize import quantize as quantize
    from gguftool.edit.changes import Change as Change
    from gguftool.edit.ops import Dedupe as Dedupe
    from gguftool.edit.ops import Delete as Delete
    from gguftool.edit.ops import Operation as Operation
    from gguftool.edit.ops import Realign as Realign
    from gguftool.edit.ops import Rename as Rename
    from gguftool.edit.ops import Repack as Repack
    from gguftool.edit.ops import Reserve as Reserve
    from gguftool.edit.ops import Set as Set
    from gguftool.edit.ops import SetElement as SetElement
    from gguftool.edit.ops import Strip as Strip
    from gguftool.edit.patched import PatchPlan as PatchPlan
    from gguftool.edit.plan import EditPlan as EditPlan
    from gguftool.edit.plan import Result as Result
    from gguftool.edit.undo import Undone as Undone
    from gguftool.errors import ChangedMeanwhile as ChangedMeanwhile
    from gguftool.errors import FormatError as FormatError
    from gguftool.errors import GgufToolError as GgufToolError
    from gguftool.errors import InterruptedEdit as InterruptedEdit
    from gguftool.errors import MissingFile as MissingFile
    from gguftool.errors import NoRoom as NoRoom
    from gguftool.errors import NotGguf as NotGguf
    from gguftool.errors import Refused as Refused
    from gguftool.errors import ToolFailed as ToolFailed
    from gguftool.errors import Unreadable as Unreadable
    from gguftool.errors import UsageError as UsageError
    from gguftool.facts import BUILD as BUILD
    from gguftool.fleet.row import Row as Row
    from gguftool.fleet.scan import scan as scan
    from gguftool.fleet.watch import watch as watch
    from gguftool.fleet.watched import Event as Event
    from gguftool.format.header import Field as Field
    from gguftool.hub import open_any as open
    from gguftool.lint.call import lint as lint
    from gguftool.lint.explain import Explanation as Explanation
    from gguftool.lint.explain import explain as explain
    from gguftool.lint.fixes import Fixes as Fixes
    from gguftool.lint.rule import Finding as Finding
    from gguftool.lint.rule import Fix as Fix
    from gguftool.lint.rule import Rule as Rule
    from gguftool.lint.rule import Severity as Severity
    from gguftool.lint.rules import catalogue as rules
    from gguftool.lint.run import Report as Report
    from gguftool.lint.tokenized import Compared as Compared
    from gguftool.memory.plan import MemoryPlan as MemoryPlan
    from gguftool.model.compare import Difference as Difference
    from gguftool.model.model import Model as Model
    from gguftool.model.overview import Overview as Overview
    from gguftool.model.part import Tensor as Tensor
    from gguftool.predict import AfterLoad as AfterLoad
    from gguftool.predict import Harm as Harm
    from gguftool.predict import Prediction as Prediction
    from gguftool.predict.needs import Need as Need
    from gguftool.predict.pairs.misfit import Misfit as Misfit
    from gguftool.report.page.render import report_page as report_page
    from gguftool.run.diagnose import Diagnosis as Diagnosis
    from gguftool.run.diagnose import Judgement as Judgement
    from gguftool.run.diagnose import explain_text as explain_error
    from gguftool.run.diagnose import judge as judge_log
    from gguftool.run.doctor import Examination as Examination
    from gguftool.run.doctor import examine as examine
    from gguftool.run.emit import emit as emit
    from gguftool.run.emit.folder import emit_folder as emit_folder
    from gguftool.run.explained import FlagAnswer as FlagAnswer
    from gguftool.run.explained import explain_flag as explain_flag
    from gguftool.run.imatrix import Measured as MeasuredImatrix
    from gguftool.run.imatrix import Wanted as WantedImatrix
    from gguftool.run.imatrix import measure_imatrix as measure_imatrix
    from gguftool.run.known import Known as Known
    from gguftool.run.kvtest import KvTest as KvTest
    from gguftool.run.kvtest import kv_test as kv_test
    from gguftool.run.launch import LaunchPlan as LaunchPlan
    from gguftool.run.quanttest import QuantTest as QuantTest
    from gguftool.run.quanttest import quant_test as quant_test
    from gguftool.run.translation.result import Script as Script
    from gguftool.run.translation.result import Translation as Translation
    from gguftool.run.wishes import Obstacle as Obstacle
    from gguftool.run.wishes import Wishes as Wishes
    from gguftool.verify.call import join as join
    from gguftool.verify.call import merge as merge
    from gguftool.verify.call import rename_shards as rename_shards
    from gguftool.verify.call import repair as repair
    from gguftool.verify.call import split as split
    from gguftool.verify.call import verify as verify
    from gguftool.verify.call import write_manifest as write_manifest
    from gguftool.verify.hashes import FileHashes as FileHashes
    from gguftool.verify.hashes import TensorHash as TensorHash
    from gguftool.verify.hashes import hash_file as hash_file
    from gguftool.verify.names import Renaming as Renaming
    from gguftool.verify.repair import Repaired as Repaired
    from gguftool.verify.resplit import Written as Written
    from gguftool.verify.result import Fault as Fault
    from gguftool.verify.result import FileReport as FileReport
    from gguftool.verify.result import Verification as Verification

__all__ = [
    "BUILD",
    "AfterLoad",
    "Cause",
    "Change",
    "ChangedMeanwhile",
    "Check",
    "Compared",
    "Compatibility",
    "Converted",
    "Dedupe",
    "Delete",
    "Diagnosed",
    "Diagnosis",
    "Difference",
    "EditPlan",
    "Event",
    "Examination",
    "Explanation",
    "Fault",
    "Field",
    "FileHashes",
    "FileReport",
    "Finding",
    "Fix",
    "Fixes",
    "FlagAnswer",
    "FormatError",
    "GgufToolError",
    "Glance",
    "Harm",
    "Health",
    "ImatrixReport",
    "InterruptedEdit",
    "Judgement",
    "Known",
    "KvTest",
    "LaunchPlan",
    "LogCheck",
    "MeasuredImatrix",
    "MemoryPlan",
    "Misfit",
    "MissingFile",
    "Mixed",
    "Model",
    "Need",
    "NoRoom",
    "NotGguf",
    "Obstacle",
    "Operation",
    "Overview",
    "PatchPlan",
    "Planned",
    "Prediction",
    "Prepared",
    "Prompt",
    "Pulled",
    "Pushed",
    "QuantTest",
    "Quantized",
    "Realign",
    "Refused",
    "Rename",
    "Renaming",
    "Repack",
    "Repaired",
    "Report",
    "Reported",
    "Reserve",
    "Result",
    "Row",
    "Rule",
    "Script",
    "Served",
    "Set",
    "SetElement",
    "Severity",
    "Stored",
    "Strip",
    "Tensor",
    "TensorHash",
    "ToolFailed",
    "Translation",
    "Undone",
    "Unreadable",
    "UsageError",
    "Verification",
    "WantedImatrix",
    "Wishes",
    "Written",
    "__version__",
    "apply_patch",
    "check_converted",
    "check_log",
    "compare_templates",
    "compare_tokenizers",
    "compat",
    "convert",
    "diagnose",
    "diff",
    "doctor",
    "edit",
    "emit",
    "emit_folder",
    "examine",
    "examine_imatrix",
    "explain",
    "explain_error",
    "explain_flag",
    "fixes",
    "glance",
    "hash_file",
    "hash_tensors",
    "join",
    "judge_log",
    "known_text",
    "kv_test",
    "launch",
    "lint",
    "make_patch",
    "measure_imatrix",
    "memory",
    "merge",
    "merge_imatrix",
    "misfits",
    "mix",
    "open",
    "overview",
    "plan",
    "plan_edit",
    "plan_launch",
    "predict",
    "prepare",
    "pull",
    "push_check",
    "quant_test",
    "quantize",
    "recover",
    "rename_shards",
    "render",
    "repair",
    "report",
    "report_page",
    "rules",
    "scan",
    "serve_folder",
    "split",
    "stored_models",
    "translate",
    "translate_script",
    "undo",
    "verify",
    "watch",
    "write_manifest",
]


if not TYPE_CHECKING:  # else a misspelt name would be any name to a checker

    def __getattr__(name: str) -> Any:
        from gguftool.door import public

        return public(name)


def __dir__() -> list[str]:
    return sorted(__all__)
