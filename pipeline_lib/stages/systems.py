"""All systems of stages by name."""

from collections.abc import Mapping

from pipeline_lib.stages.adaptive import ADAPTIVE
from pipeline_lib.stages.classmate import CLASSMATE
from pipeline_lib.stages.latent import LATENT
from pipeline_lib.stages.loop import LOOP
from pipeline_lib.stages.pacore import PACORE
from pipeline_lib.stages.stage import Stage

SYSTEMS: Mapping[str, tuple[Stage, ...]] = {
    "loop": LOOP,
    "pacore": PACORE,
    "latent": LATENT,
    "adaptive": ADAPTIVE,
    "classmate": CLASSMATE,
}
STAGES: Mapping[str, Stage] = {stage.name: stage for system in SYSTEMS.values() for stage in system}
