// What the compiler says about each kernel of a program, and below it what NVIDIA's assembler says: its remarks with
// the user's lines, its warnings, and the registers and shared memory that the cubin declares.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collecting.hpp"
#include "commands.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/cubin.hpp"

namespace tessera {
namespace {

constexpr const char* kUsage =
    "tessera explain [--gpu sm_90[,sm_100...]] [--kernel NAME] -- PROGRAM [ARGUMENTS...]\n"
    "    runs PROGRAM on the CPU and says of every kernel that it launches (whose name contains NAME) which "
    "conditions\n"
    "    its launches fulfil, how each load and store reaches memory, and what the assembler makes of it.\n";

/// The value of "Key:  'value'" in a line of YAML; empty if it has another key.
std::string value_of(const std::string& line, const std::string& key) {
  std::size_t at = line.find_first_not_of(" -");
  if (at == std::string::npos || line.compare(at, key.size() + 1, key + ":") != 0) return "";
  at = line.find_first_not_of(" '", at + key.size() + 1);
  if (at == std::string::npos) return "";
  const std::size_t end = line.find_last_not_of(" '\r");
  return line.substr(at, end - at + 1);
}

/// "kernels.hpp:54" out of "{ File: '../kernels.hpp', Line: 54, Column: 0 }".
std::string place_of(const std::string& location) {
  const std::size_t file = location.find("File: '"), line = location.find("Line: ");
  if (file == std::string::npos || line == std::string::npos) return "";
  std::string name = location.substr(file + 7, location.find('\'', file + 7) - file - 7);
  name.erase(0, name.rfind('/') + 1);
  return concat(name, ":", std::atoi(location.c_str() + line + 6));
}

/// Prints every remark once, with how often it was made; those about defaults of hints say nothing new.
void print_remarks(const std::string& yaml) {
  std::map<std::string, int> remarks;
  std::string place, text, instruction, shape, name;
  for (std::size_t at = 0; at < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    const std::string line = yaml.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("--- ")) {
      place = text = instruction = shape = name = "";
    } else if (line == "...") {
      if (name == "RemarkHintDefault" || text.empty()) continue;
      if (!instruction.empty()) text += ": " + instruction;
      if (!shape.empty()) text += " " + shape;
      ++remarks[concat(place, std::string(place.size() < 28 ? 28 - place.size() : 0, ' '), " ", text)];
    } else if (line.starts_with("DebugLoc:")) {
      place = place_of(line);
    } else {
      for (const auto& [key, field] :
           {std::pair{"Name", &name}, {"Remark", &text}, {"Instruction", &instruction}, {"Shape", &shape}}) {
        if (std::string value = value_of(line, key); !value.empty()) *field = std::move(value);
      }
    }
  }
  for (const auto& [remark, count] : remarks) {
    std::printf("    %s%s\n", remark.c_str(), count > 1 ? concat(" (", count, " times)").c_str() : "");
  }
}

void explain(const jit::Collected& kernel) {
  std::fputs(read_text(kernel.report).c_str(), stdout);
  std::string why;
  const auto assembler = jit::assembler_for(kernel.gpu, &why);
  if (!assembler) {
    std::printf("  %s\n\n", why.c_str());
    return;
  }
  tileiras::AssembleOptions options;
  options.gpu = kernel.gpu;
  options.assembler = assembler->path;
  options.remarks = true;
  const std::string bytecode = read_text(kernel.file);
  const tileiras::AssembleResult made = tileiras::assemble(std::as_bytes(std::span(bytecode)), options);
  std::printf("  assembler %d.%d, %.2f s\n", assembler->major, assembler->minor, made.seconds);
  print_remarks(made.remarks);
  for (const std::string& warning : made.warnings) std::printf("    %s\n", warning.c_str());
  const jit::CubinResources r = jit::resources_of(made.cubin);
  std::printf("  %u registers, %.1f KiB of shared memory, %u bytes of stack%s\n\n", r.registers,
              static_cast<double>(r.shared) / 1024, r.stack, r.stack > 0 ? " (spilled registers: slow)" : "");
}

}  // namespace

int explain_command(Words words) {
  std::string gpus = "sm_90", filter;
  std::vector<char*> program;
  for (std::size_t i = 0; i < words.size() && program.empty(); ++i) {
    const std::string word = words[i];
    if (word == "--")
      program.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
    else if (word == "--gpu" && i + 1 < words.size())
      gpus = words[++i];
    else if (word == "--kernel" && i + 1 < words.size())
      filter = words[++i];
    else
      break;
  }
  if (program.empty()) {
    const bool asked = words.size() == 1 && std::strcmp(words[0], "--help") == 0;
    std::fputs(kUsage, asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  const TemporaryFolder folder;
  if (const int code = run_collecting(program, gpus, folder.path); code != 0) {
    std::fprintf(stderr, "tessera explain: %s ended with code %d; what it launched until then:\n", program[0], code);
  }
  std::size_t shown = 0;
  std::puts("");
  for (const jit::Collected& kernel : jit::collected(folder.path)) {
    if (kernel.label.find(filter) == std::string::npos) continue;
    explain(kernel);
    ++shown;
  }
  if (shown == 0) std::printf("no kernel%s%s was launched\n", filter.empty() ? "" : " named ", filter.c_str());
  return shown > 0 ? 0 : 1;
}

}  // namespace tessera
