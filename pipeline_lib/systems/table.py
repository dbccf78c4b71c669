"""All systems, and all stages, by name."""

from collections.abc import Mapping

from pipeline_lib.systems.apr.stages import APR
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.systems.prr.stages import PRR
from pipeline_lib.systems.stage import Stage, System

SYSTEMS: Mapping[str, System] = {
    system.name: system for system in (LOOP, PACORE, PRR, APR, CLASSMATE)
}
SYSTEM_OF: Mapping[str, System] = {
    stage.name: system for system in SYSTEMS.values() for stage in system.stages
}
"""By name of the stage."""
STAGES: Mapping[str, Stage] = {name: system.stage(name) for name, system in SYSTEM_OF.items()}
