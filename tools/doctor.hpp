// `tessera doctor`: a report on this machine.
#pragma once

namespace tessera {

/// Prints the report; returns the exit code, 0.
int doctor();

}  // namespace tessera
