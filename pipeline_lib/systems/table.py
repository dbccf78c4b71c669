"""All systems of stages by name."""

from collections.abc import Mapping

from pipeline_lib.systems.apr.stages import APR
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.systems.prr.stages import PRR
from pipeline_lib.systems.stage import Stage

SYSTEMS: Mapping[str, tuple[Stage, ...]] = {
    "loop": LOOP,
    "pacore": PACORE,
    "prr": PRR,
    "apr": APR,
    "classmate": CLASSMATE,
}
STAGES: Mapping[str, Stage] = {stage.name: stage for system in SYSTEMS.values() for stage in system}
