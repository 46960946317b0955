// One run of the assembler.
#include <csignal>
#include <cstring>

#include "codegen/tileiras/files.hpp"
#include "codegen/tileiras/messages.hpp"
#include "codegen/tileiras/process.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {

namespace {

/// A little-endian number of up to 8 bytes; 0 beyond the end.
std::uint64_t number(std::span<const std::byte> file, std::uint64_t at, std::uint64_t bytes) {
  if (at > file.size() || bytes > file.size() - at) return 0;
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(file[at + i]) << (8 * i);
  return value;
}

/// True for a 64-bit ELF file all of whose sections are there: a full disk can leave the first part of one. (System V
/// ABI, chapter 4: the header's e_shoff at 40, e_shentsize at 58, e_shnum at 60; a section's sh_type at 4, sh_offset at
/// 24, sh_size at 32.)
bool is_whole_elf(std::span<const std::byte> file) {
  constexpr std::uint64_t kHeader = 64, kSection = 64, kNoBits = 8;
  constexpr char kMagic[] = {'\x7f', 'E', 'L', 'F'};
  if (file.size() <= kHeader || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0) return false;
  const std::uint64_t table = number(file, 40, 8), count = number(file, 60, 2), size = number(file, 58, 2);
  if (count == 0) return true;
  if (size < kSection || table > file.size() || count * size > file.size() - table) return false;
  for (std::uint64_t s = table; s < table + count * size; s += size) {
    const std::uint64_t offset = number(file, s + 24, 8), bytes = number(file, s + 32, 8);
    if (number(file, s + 4, 4) == kNoBits || bytes == 0) continue;
    if (offset > file.size() || bytes > file.size() - offset) return false;
  }
  return true;
}

std::vector<std::string> command(const std::string& assembler, const AssembleOptions& o, const TempFolder& folder) {
  std::vector<std::string> words = {assembler, "--gpu-name=" + o.gpu, concat("--opt-level=", o.opt_level)};
  if (o.line_info) words.emplace_back("--lineinfo");
  if (o.remarks) {
    words.emplace_back("--remarks=all");
    words.emplace_back("--remark-format=yaml");
    words.push_back("--remarks-output-file=" + folder.file("remarks.yaml"));
  }
  words.push_back(folder.file("kernel.tilebc"));
  words.emplace_back("-o");
  words.push_back(folder.file("kernel.cubin"));
  return words;
}

std::string clipped(const std::string& text) {
  constexpr std::size_t kMost = 4000;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

/// True if the message is about the machine, not the program: the same program may be accepted next time.
bool ran_out(const std::string& err) {
  for (const char* text : {"No space left on device", "bad_alloc", "out of memory", "Cannot allocate memory"}) {
    if (err.find(text) != err.npos) return true;
  }
  return false;
}

[[noreturn]] void fail(const std::string& assembler, const AssembleOptions& o, const ProcessResult& run) {
  if (run.start_error != 0)
    throw CompileError(concat("cannot start the assembler ", assembler, ": ", std::strerror(run.start_error),
                              "; to fetch a working one, ", kHowToGet));
  if (run.timed_out)
    throw TooSlow(
        concat("the assembler did not finish within ", run.by_processor ? o.processor_limit_s : o.time_limit_s,
               run.by_processor ? " s of processor time for " : " s for ", o.gpu,
               " and was stopped: use smaller tiles, or a longer time limit"),
        run.by_processor);
  for (const int from_outside : {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, SIGXCPU, SIGXFSZ}) {
    if (run.signal == from_outside)
      throw CompileError(
          concat("the assembler was killed (signal ", run.signal, ") while it compiled a kernel for ", o.gpu,
                 from_outside == SIGKILL ? ": is there enough memory? It said: " : ". It said: ", clipped(run.err)));
  }
  if (ran_out(run.err))
    throw CompileError(concat("the assembler ran out of memory or disk space while it compiled a kernel for ", o.gpu,
                              ". It said: ", clipped(run.err)));
  if (run.signal != 0)
    throw Rejection(concat("the assembler crashed (signal ", run.signal, ") on a kernel for ", o.gpu, ": a bug in ",
                           assembler, ". It said: ", clipped(run.err)));
  Messages messages = read_messages(run.err);
  const bool silent = messages.first_error.empty() && run.err.find_first_not_of(" \r\n") == std::string::npos;
  const std::string why = silent ? ": no reason given" : concat(": ", messages.first_error);
  throw Rejection(concat("the assembler rejects the kernel for ", o.gpu, " (exit code ", run.exit_code, ")",
                         messages.first_error.empty() && !silent ? " and said:" : why, "\n", clipped(run.err)),
                  messages.where);
}

}  // namespace

AssembleResult assemble(std::span<const std::byte> bytecode, const AssembleOptions& options) {
  const std::string assembler = options.assembler.empty() ? find_assembler(options.gpu).path : options.assembler;
  TempFolder folder;
  write_file(folder.file("kernel.tilebc"), bytecode);
  // Its own temporary files land in our folder and go with it.
  ProcessResult run = run_process(command(assembler, options, folder), {"TMPDIR=" + folder.path()},
                                  options.time_limit_s, options.processor_limit_s);
  if (run.start_error != 0 || run.timed_out || run.signal != 0 || run.exit_code != 0) fail(assembler, options, run);
  AssembleResult result;
  auto cubin = read_file(folder.file("kernel.cubin"));
  if (!cubin || !is_whole_elf(*cubin))
    throw CompileError(concat("the assembler ", assembler, " reported success but gave ",
                              cubin ? concat(cubin->size(), " bytes that are not a cubin") : std::string("no file"),
                              ": is it NVIDIA's tileiras, and is there space in the temporary folder?"));
  result.cubin = std::move(*cubin);
  Messages messages = read_messages(run.err + "\n" + run.out);
  result.warnings = std::move(messages.warnings);
  result.register_pressure = messages.register_pressure;
  result.seconds = run.processor_seconds;
  if (options.remarks) {
    if (auto remarks = read_file(folder.file("remarks.yaml")))
      result.remarks.assign(reinterpret_cast<const char*>(remarks->data()), remarks->size());
  }
  return result;
}

}  // namespace tessera::tileiras
