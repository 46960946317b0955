// The process-wide switch of checked mode.
#pragma once

namespace tessera {

/// True if kernels run checked: out-of-range tile indices, reads of never-written elements, overlaps and overflowing
/// index arithmetic become DeviceErrors, recordings that change a TraceError. Initially TESSERA_CHECK (default off).
bool check_mode();
/// Changes it for operations built from now on. Tensors made while it was off do not know what was written, and count
/// as written: reads of their elements are never reported. On the CPU a checked launch runs on one thread.
void set_check_mode(bool on) noexcept;

}  // namespace tessera
