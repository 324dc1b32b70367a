// The kernels as a shared library for the host: CUDA's words, the source unchanged, four launches.
#include "launch.h"

#include "kv_canary.cu"

#ifdef KV_TRACE_BLOCKS
#include "blocks.h"
#endif

KV_EXPORT_LAUNCH(kv_canary_write_folded)
KV_EXPORT_LAUNCH(kv_canary_write_plain)
KV_EXPORT_LAUNCH(kv_canary_verify_folded)
KV_EXPORT_LAUNCH(kv_canary_verify_heads)
KV_EXPORT_LAUNCH(kv_canary_verify_plain)
