// The program `mortar`. Commands are in files of their own and register themselves (command.hpp).
#include "command.hpp"
#include "interrupt.hpp"
#include "tessera/mesh/processes.hpp"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  mortar::cli::handle_signals();
  tessera::mesh::nccl_is_ours();
  return mortar::cli::run_program(words);
}
