// base/nvtx.hpp says what NVIDIA's own header says. Compiled, not run, where that header is (CUDA toolkits have it).
#include <nvtx3/nvToolsExt.h>

#include "base/nvtx.hpp"

using namespace tessera;

static_assert(nvtx::kCallbacksTable == NVTX_ETID_CALLBACKS && nvtx::kVersionTable == NVTX_ETID_VERSIONINFO);
static_assert(sizeof(nvtx::CallbacksTable) == sizeof(NvtxExportTableCallbacks));
static_assert(sizeof(nvtx::VersionTable) == sizeof(NvtxExportTableVersionInfo));
static_assert(offsetof(nvtx::VersionTable, version) == offsetof(NvtxExportTableVersionInfo, version));
static_assert(offsetof(nvtx::VersionTable, set_injection_version) ==
              offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(nvtx::kModules == NVTX_CB_MODULE_SIZE && nvtx::kCore2 == NVTX_CB_MODULE_CORE2);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_CORE] == NVTX_CBID_CORE_SIZE);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_CUDA] == NVTX_CBID_CUDA_SIZE);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_OPENCL] == NVTX_CBID_OPENCL_SIZE);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_CUDART] == NVTX_CBID_CUDART_SIZE);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_CORE2] == NVTX_CBID_CORE2_SIZE);
static_assert(nvtx::kSlots[NVTX_CB_MODULE_SYNC] == NVTX_CBID_SYNC_SIZE);
static_assert(+nvtx::kRangePush == NVTX_CBID_CORE2_DomainRangePushEx);
static_assert(+nvtx::kRangePop == NVTX_CBID_CORE2_DomainRangePop);
static_assert(+nvtx::kNameCategory == NVTX_CBID_CORE2_DomainNameCategoryA);
static_assert(+nvtx::kCreateDomain == NVTX_CBID_CORE2_DomainCreateA);
static_assert(sizeof(nvtx::EventAttributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(nvtx::EventAttributes, category) == offsetof(nvtxEventAttributes_t, category));
static_assert(offsetof(nvtx::EventAttributes, color_type) == offsetof(nvtxEventAttributes_t, colorType));
static_assert(offsetof(nvtx::EventAttributes, color) == offsetof(nvtxEventAttributes_t, color));
static_assert(offsetof(nvtx::EventAttributes, payload_type) == offsetof(nvtxEventAttributes_t, payloadType));
static_assert(offsetof(nvtx::EventAttributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(nvtx::EventAttributes, message_type) == offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(nvtx::EventAttributes, message) == offsetof(nvtxEventAttributes_t, message));
static_assert(nvtx::EventAttributes{}.version == NVTX_VERSION && nvtx::EventAttributes{}.color_type == NVTX_COLOR_ARGB);
static_assert(nvtx::EventAttributes{}.message_type == NVTX_MESSAGE_TYPE_ASCII);
