// All ops of the kimi dialect, for TableGen.
include "dialects/Kimi/KimiDialect.td"
include "dialects/Kimi/KimiWeightOps.td"
include "dialects/Kimi/KimiMixerOps.td"
include "dialects/Kimi/KimiNormOps.td"
include "dialects/Kimi/KimiLinearOps.td"
include "dialects/Kimi/KimiTokenOps.td"
include "dialects/Kimi/KimiKernelOps.td"
