// Joining the processes that a launcher has started, and following the first of them.
#include "processes.hpp"

#include <string>

#include "tessera/mesh/processes.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar::cli {
namespace {

void check_group_options(const Arguments& arguments, const ModelOptions& options,
                         const tessera::mesh::ProcessRank& process) {
  if (options.tensor_parallel != process.size)
    throw UsageError("--tensor-parallel: expected " + std::to_string(process.size) + ", as many as " +
                     process.launcher + " has started processes, found " + std::to_string(options.tensor_parallel));
  if (options.device && arguments.text("--device").find(':') != std::string::npos)
    throw UsageError(
        "--device: expected cpu or cuda, because each of several processes takes the GPU of its number on "
        "its machine, found \"" +
        arguments.text("--device") + "\"");
}

/// This process's rank of the mesh of all. Options are checked when it has joined, so that it tells the others what is
/// wrong with its own, and they do not wait for it.
tessera::Mesh join_group(const Arguments& arguments, const ModelOptions& options,
                         const tessera::mesh::ProcessRank& process) {
  const tessera::Mesh mesh = tessera::Mesh::from_environment();
  tessera::set_default_device(mesh.device(mesh.first_rank()));
  try {
    check_group_options(arguments, options, process);
  } catch (const UsageError& error) {
    mesh.abort(error.what());
    throw;
  }
  return mesh;
}

}  // namespace

bool is_follower() { return tessera::mesh::process_rank().rank > 0; }

Model load_and_follow(const Arguments& arguments, ModelOptions options) {
  const tessera::mesh::ProcessRank process = tessera::mesh::process_rank();
  const bool cpu = options.device && options.device->kind() == tessera::DeviceKind::Cpu;
  // So that nothing asks for another one. Of several processes, each one's GPU is known when it has joined.
  if (options.device && (cpu || process.size == 1)) tessera::set_default_device(*options.device);
  if (process.size > 1) options.meshes = {join_group(arguments, options, process)};
  if (process.rank > 0) options.progress = {}, options.warning = {}, options.before_weights = {};
  Model model = load(arguments.positional(0), options);
  options.meshes.clear();
  if (process.rank == 0) return model;
  follow(std::move(model));
  throw Followed();
}

}  // namespace mortar::cli
