"""All systems of stages by name."""

from collections.abc import Mapping

from pipeline_lib.systems.apr.stages import ADAPTIVE
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.systems.prr.stages import LATENT
from pipeline_lib.systems.stage import Stage

SYSTEMS: Mapping[str, tuple[Stage, ...]] = {
    "loop": LOOP,
    "pacore": PACORE,
    "latent": LATENT,
    "adaptive": ADAPTIVE,
    "classmate": CLASSMATE,
}
STAGES: Mapping[str, Stage] = {stage.name: stage for system in SYSTEMS.values() for stage in system}
