// `tessera doctor`: what this machine has, in one page.
#pragma once

namespace tessera {

/// Prints the report; returns the exit code, 0.
int doctor();

}  // namespace tessera
