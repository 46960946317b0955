// Texts and bytes from outside: environment variables, the assembler's output, cubins, source files.
#include <algorithm>

#include "codegen/tileiras/messages.hpp"
#include "fuzz/fuzz.hpp"
#include "host/call_text.hpp"
#include "jit/compile/pipeline.hpp"
#include "tessera/base/env.hpp"
#include "tessera/host/collecting.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::fuzz {
namespace {

/// An environment variable, and the function that reads it.
struct Knob {
  Env knob;
  void (*read)();
};
void read_flag(Env knob) { (void)env_flag(knob, false); }
void read_number(Env knob) { FUZZ_REQUIRE(env_int(knob, 1, 1) >= 1); }
void read_cache() {
  const auto cache = jit::DiskCache::of_user();
  FUZZ_REQUIRE(!cache || cache->limit() >= std::uint64_t{1} << 20);
}
void read_collected() {
  const CollectedGpu gpu = collected_gpu();
  FUZZ_REQUIRE(gpu.sm >= 10 && gpu.sm < 1000 && gpu.num_sms >= 1);
}
constexpr Knob kKnobs[] = {
    {Env::DEVICE, [] { (void)runtime::device_from_environment(); }},
    {Env::CHECK, [] { read_flag(Env::CHECK); }},
    {Env::NVTX, [] { read_flag(Env::NVTX); }},
    {Env::CACHE, read_cache},
    {Env::CACHE_MB, read_cache},
    {Env::CPU_THREADS, [] { read_number(Env::CPU_THREADS); }},
    {Env::TILEIRAS_SECONDS, [] { read_number(Env::TILEIRAS_SECONDS); }},
    {Env::TUNING, [] { (void)jit::hints_text(nullptr); }},
    {Env::COLLECT_GPUS, read_collected},
};

}  // namespace

void fuzz_knobs(Bytes bytes) {
  Input in(bytes);
  const Knob& k = kKnobs[in.number<std::uint8_t>() % std::size(kKnobs)];
  std::string value = string_of(in.rest());
  value.resize(std::min(value.size(), value.find('\0')));
  setenv(info(Env::COLLECT).variable, "somewhere", 1);
  setenv(info(k.knob).variable, value.c_str(), 1);
  bool read = false;
  try {
    k.read();
    read = true;
  } catch (const InternalError& error) { broken(error.what(), __FILE__, __LINE__); } catch (const Error& error) {
    // Which knob it is: by its name, or for tuning words by what they are.
    const std::string text = error.message();
    FUZZ_REQUIRE(text.find(info(k.knob).variable) != text.npos || text.starts_with("tuning: "));
  }
  FUZZ_REQUIRE(read || !value.empty());
  unsetenv(info(k.knob).variable);
  unsetenv(info(Env::COLLECT).variable);
}

Seeds seeds_knobs() {
  Seeds seeds;
  const char* values[] = {"cuda:12",         "true",        "off", "0", "64", "3", "9223372036854775807",
                          "warps=4 split=0", "sm_90,sm_100"};
  for (std::size_t i = 0; i < std::size(kKnobs); ++i) seeds.push_back(static_cast<char>(i) + std::string(values[i]));
  return seeds;
}

void fuzz_cubin(Bytes bytes) { (void)jit::resources_of(bytes); }

Seeds seeds_cubin() {
  // An ELF-64 file of two sections: the names, and NVIDIA's attributes with registers and stack.
  std::string file(64, '\0');
  const auto put = [&](std::size_t at, std::uint64_t value, int n) {
    if (file.size() < at + 8) file.resize(at + 8);
    for (int i = 0; i < n; ++i) file[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  const std::string names = std::string(".nv.info\0.nv.shared.k\0", 22);
  put(40, 64, 8);  // section headers
  put(58, 64, 2);  // size of one
  put(60, 3, 2);   // how many
  put(62, 0, 2);   // the one of the names
  put(64 + 24, 256, 8);
  put(64 + 32, names.size(), 8);
  put(128 + 24, 256 + 24, 8);  // .nv.info
  put(128 + 32, 24, 8);
  put(192, 9, 4);  // .nv.shared.k
  put(192 + 32, 4096, 8);
  file.resize(256);
  file += names + std::string(24 - names.size(), '\0');
  file += std::string("\x04\x2f\x08\x00\x01\x00\x00\x00\x40\x00\x00\x00", 12);
  file += std::string("\x04\x11\x08\x00\x01\x00\x00\x00\x10\x00\x00\x00", 12);
  return {file};
}

void fuzz_assembler_text(Bytes bytes) {
  const tileiras::Messages m = tileiras::read_messages(string_of(bytes));
  for (const std::string& w : m.warnings) FUZZ_REQUIRE(w.find('\n') == w.npos && w.size() <= bytes.size());
  FUZZ_REQUIRE(m.first_error.find('\n') == m.first_error.npos);
  FUZZ_REQUIRE(!m.where.known() || m.where.file[0] != '\0');
}

Seeds seeds_assembler_text() {
  return {"kernel.cpp:12:7: error: 'cuda_tile.mmaf' op is wrong\nwarning: High register usage (255)\n",
          "loc(\"a b.cpp\":4:2): error: no\n", "error: failed to compile Tile IR program"};
}

/// A line number, then the file.
void fuzz_source_text(Bytes bytes) {
  Input in(bytes);
  const auto line = static_cast<std::uint32_t>(1 + in.number<std::uint8_t>() % 8);
  const std::string path = write_file("input.cpp", in.rest());
  const SourceLocation where{path.c_str(), "f", line, 0};
  for (const std::string& a : detail::call_arguments("k", where)) {
    FUZZ_REQUIRE(a.size() <= in.rest().size());
    FUZZ_REQUIRE(detail::bare_name(a).size() <= a.size());
  }
}

Seeds seeds_source_text() {
  return {std::string(1, '\0') + "auto y = kernel<k<128, f32>>.blocks(n)(std::move(y), mut(z).slice<0>(0, n), 'a');",
          std::string(1, '\1') + "// \"quoted\"\nkernel<k>(/* no, */ \"a,\\\"\" , f(b, c)[1], // end\n {1, 2})"};
}

}  // namespace tessera::fuzz
