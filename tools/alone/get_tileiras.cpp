// `tessera get-tileiras` as a program of its own, which scripts/get-tileiras.sh compiles in a clone that has built
// nothing yet.
#include <cstdio>
#include <exception>

#include "commands.hpp"

using tessera::get_tileiras_command;

int main(int argc, char** argv) {
  try {
    return get_tileiras_command({argv + 1, static_cast<std::size_t>(argc - 1)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera get-tileiras: %s\n", error.what());
    return 1;
  }
}
