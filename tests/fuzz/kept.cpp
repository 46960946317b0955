// What the library keeps of compiled kernels: files of the disk cache, bundles, cached facts, predicates. They end with
// a checksum; the first byte of an input says whether it is corrected, so that the code after the check is reached as
// well.
#include <algorithm>
#include <memory>

#include "analysis/launch_program.hpp"
#include "fuzz/fuzz.hpp"
#include "jit/code/sha256.hpp"
#include "jit/store/cache_file.hpp"
#include "jit/store/code_stores.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::fuzz {
namespace {

using jit::CachedCubin;
using jit::CacheKey;

/// The input after its first byte, with the right checksum at its end if that byte is odd.
std::vector<std::byte> with_right_checksum(Bytes bytes) {
  Input in(bytes);
  const bool corrects = in.flag();
  std::vector<std::byte> file(in.rest().begin(), in.rest().end());
  if (!corrects) return file;
  const jit::Digest sum = jit::sha256(file);
  file.insert(file.end(), sum.begin(), sum.end());
  return file;
}
/// A seed for it: with its checksum, and without.
void add_with_checksum(Seeds& seeds, Bytes file) {
  seeds.push_back(std::string(1, '\0') + string_of(file));
  seeds.push_back(std::string(1, '\1') + string_of(file.first(file.size() - sizeof(jit::Digest))));
}

CacheKey key_of(int number) {
  CacheKey key{};
  key[0] = static_cast<std::byte>(number);
  return key;
}
CachedCubin sample_cubin(int number) {
  CachedCubin code;
  code.cubin.assign(static_cast<std::size_t>(5 * number), static_cast<std::byte>(0x7F));
  code.label = "gemm";
  code.gpu = number == 0 ? "" : "sm_90";
  code.assembler = "13.5";
  code.warnings = number == 1 ? "" : "one\ntwo";
  code.register_pressure = number == 1;
  code.seconds = 0.25 * number;
  return code;
}

bool same(const CachedCubin& a, const CachedCubin& b) {
  return a.cubin == b.cubin && a.label == b.label && a.gpu == b.gpu && a.assembler == b.assembler &&
         a.warnings == b.warnings && a.register_pressure == b.register_pressure;
}

CacheKey key_in(Bytes file) {
  CacheKey key{};
  if (file.size() >= 24 + key.size()) std::copy_n(file.begin() + 24, key.size(), key.begin());
  return key;
}

}  // namespace

void fuzz_cache_file(Bytes bytes) {
  const std::vector<std::byte> file = with_right_checksum(bytes);
  const CacheKey key = key_in(file);
  if (const auto code = jit::read_cache_file(file, nullptr)) {
    FUZZ_REQUIRE(code->seconds >= 0 && code->seconds < 1e9);
    FUZZ_REQUIRE(jit::read_cache_file(file, &key).has_value());
    const auto again = jit::read_cache_file(jit::write_cache_file(key, *code), &key);
    FUZZ_REQUIRE(again && same(*again, *code));
    const CacheKey other = jit::sha256(key);
    FUZZ_REQUIRE(!jit::read_cache_file(file, &other));
    FUZZ_REQUIRE(!jit::read_note_file(file, key));
  }
  if (const auto note = jit::read_note_file(file, key)) FUZZ_REQUIRE(jit::write_note_file(key, *note) == file);
}

Seeds seeds_cache_file() {
  Seeds seeds;
  for (int i = 0; i < 3; ++i) add_with_checksum(seeds, jit::write_cache_file(key_of(i), sample_cubin(i)));
  add_with_checksum(seeds, jit::write_note_file(key_of(3), bytes_of("a note")));
  return seeds;
}

void fuzz_disk_cache(Bytes bytes) {
  const std::vector<std::byte> file = with_right_checksum(bytes);
  const CacheKey key = key_in(file);
  const jit::DiskCache cache(folder() + "/kernels", 4096);
  FUZZ_REQUIRE(cache.store(key_of(1), sample_cubin(1)));
  for (const char* suffix : {".tsk", ".tsn"}) {
    const std::string name = "kernels/" + jit::hex(key) + suffix;
    const std::string path = write_file(name, file);
    const bool found = suffix[3] == 'k' ? cache.find(key).has_value() : cache.find_note(key).has_value();
    FUZZ_REQUIRE(found == std::filesystem::exists(path));
    for (const jit::CacheEntry& e : cache.list()) FUZZ_REQUIRE(e.valid || e.cubin_bytes == 0);
  }
  FUZZ_REQUIRE(cache.evict() <= cache.limit());
  const auto kept = cache.find(key_of(1));
  FUZZ_REQUIRE(key == key_of(1) || (kept && same(*kept, sample_cubin(1))));
  cache.clear();
  FUZZ_REQUIRE(std::filesystem::is_empty(cache.folder()));
}

Seeds seeds_disk_cache() { return seeds_cache_file(); }

namespace {

constexpr std::size_t kHeader = 16, kRow = 56;  // of a bundle

/// The input as a bundle, the checksums of its table and its entries corrected if the first byte says so.
std::vector<std::byte> bundle_with_right_checksums(Bytes bytes) {
  Input in(bytes);
  const auto corrects = in.number<std::uint8_t>();
  std::vector<std::byte> file(in.rest().begin(), in.rest().end());
  if (file.size() < kHeader) return file;
  BytesIn head(Bytes(file).subspan(12, 4));
  const std::size_t count = head.number<std::uint32_t>() % 8, table = kHeader + count * kRow;
  if (file.size() < table + sizeof(jit::Digest)) return file;
  if ((corrects & 1) != 0) {
    const jit::Digest sum = jit::sha256(Bytes(file).first(table));
    std::copy(sum.begin(), sum.end(), file.begin() + static_cast<std::ptrdiff_t>(table));
  }
  for (std::size_t i = 0; i < count && (corrects & 2) != 0; ++i) {
    BytesIn row(Bytes(file).subspan(kHeader + i * kRow + 32, 16));
    const auto offset = row.number<std::uint64_t>(), length = row.number<std::uint64_t>();
    if (offset > file.size() || length > file.size() - offset || length < sizeof(jit::Digest)) continue;
    const auto entry = std::span(file).subspan(offset, length);
    const jit::Digest sum = jit::sha256(entry.first(entry.size() - sizeof(jit::Digest)));
    std::copy(sum.begin(), sum.end(), entry.end() - static_cast<std::ptrdiff_t>(sum.size()));
  }
  return file;
}

}  // namespace

void fuzz_bundle(Bytes bytes) {
  const std::vector<std::byte> file = bundle_with_right_checksums(bytes);
  const std::string path = write_file("input.tessera", file);
  std::unique_ptr<jit::Bundle> bundle;
  if (!accepted([&] { bundle = std::make_unique<jit::Bundle>(path); })) return;
  FUZZ_REQUIRE(kHeader + bundle->size() * kRow <= file.size());
  std::vector<std::pair<CacheKey, CachedCubin>> found;
  for (std::size_t i = 0; i < bundle->size(); ++i) {
    CacheKey key{};
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(kHeader + i * kRow), key.size(), key.begin());
    accepted([&] {
      if (auto code = bundle->find(key)) found.emplace_back(key, std::move(*code));
    });
  }
  accepted([&] { FUZZ_REQUIRE(bundle->list().size() == bundle->size()); });
  (void)bundle->serves("sm_90");
  const std::string copy = folder() + "/copy.tessera";
  jit::write_bundle(copy, found);
  const jit::Bundle again(copy);
  for (const auto& [key, code] : found) FUZZ_REQUIRE(same(*again.find(key), code));
}

Seeds seeds_bundle() {
  Seeds seeds;
  for (int entries = 0; entries < 3; ++entries) {
    std::vector<std::pair<CacheKey, CachedCubin>> all;
    for (int i = 0; i < entries; ++i) all.emplace_back(key_of(i), sample_cubin(i));
    const std::string path = folder() + "/seed.tessera";
    jit::write_bundle(path, all);
    const std::string file = string_of(read_file(path));
    seeds.push_back(std::string(1, '\0') + file);
    seeds.push_back(std::string(1, '\3') + file);
  }
  return seeds;
}

void fuzz_recording_note(Bytes bytes) {
  jit::CodeShape shape;
  CacheKey cubin{};
  if (!jit::read_code_note(bytes, shape, cubin)) return;
  FUZZ_REQUIRE(!shape.abi.entry.empty() && shape.abi.num_args >= 0 && shape.abi.num_args <= calling::kMaxArguments);
  FUZZ_REQUIRE(shape.abi.persistent_blocks >= 1 && shape.abi.persistent_blocks <= 0x7FFFFFFF);
  for (const int argument : shape.abi.early_reads) FUZZ_REQUIRE(argument >= 0 && argument < shape.abi.num_args);
  jit::CodeShape again;
  CacheKey same_cubin{};
  const std::vector<std::byte> written = jit::write_code_note(shape, cubin);
  FUZZ_REQUIRE(jit::read_code_note(written, again, same_cubin) && same_cubin == cubin);
  FUZZ_REQUIRE(jit::write_code_note(again, cubin) == written);
}

Seeds seeds_recording_note() {
  jit::CodeShape shape;
  shape.abi.entry = "softmax";
  shape.abi.num_args = 11;
  Seeds seeds{seed_of(jit::write_code_note(shape, key_of(1)))};
  shape.abi.programmatic_launch = shape.abi.launch_flags = true;
  shape.abi.early_reads = {3, 5};
  shape.abi.persistent_blocks = 132;
  shape.form = jit::Form::Bare;
  shape.abi.checks.push_back({"m must be positive", {"kernel.cpp", "softmax", 12, 3}});
  shape.abi.checks.push_back({"", {"", "", 0, 0}});
  seeds.push_back(seed_of(jit::write_code_note(shape, key_of(2))));
  return seeds;
}

/// A length, the bytes of the conditions, then argument slots to ask them with.
void fuzz_conditions(Bytes bytes) {
  Input in(bytes);
  const std::size_t said = in.number<std::uint16_t>();  // before the rest is looked at
  const std::size_t length = std::min(said, in.rest().size());
  const Bytes program = in.rest().first(length);
  const auto conditions = analysis::LaunchPredicates::read(program);
  if (!conditions) return;
  const std::vector<std::byte> written = conditions->bytes();
  const auto again = analysis::LaunchPredicates::read(written);
  FUZZ_REQUIRE(again && again->bytes() == written);
  FUZZ_REQUIRE(conditions->refinements() == again->refinements());
  Input values(in.rest().subspan(length));
  for (const std::size_t count : {0, 1, 3, 40}) {
    std::vector<std::uint64_t> slots(count);
    for (std::uint64_t& s : slots) s = static_cast<std::uint64_t>(values.extent());
    const std::uint64_t held = conditions->evaluate(slots);
    FUZZ_REQUIRE(held == again->evaluate(slots));
    // What slot_mask leaves out is not looked at.
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t> others = slots;
      others[i] ^= ~conditions->slot_mask(i);
      FUZZ_REQUIRE(conditions->evaluate(others) == held);
    }
  }
}

Seeds seeds_conditions() {
  Seeds seeds;
  for (int kind = 0; kind < 3; ++kind) {
    analysis::ExprPool e;
    analysis::ConditionPool pool(e);
    analysis::LaunchProgram program;
    const analysis::Expr a = e.arg(0), b = e.arg(1, 32), c = e.arg(2, 8, false);
    program.add(pool, e, pool.divides(16, a));
    if (kind > 0)
      program.add(pool, e, pool.both(pool.less_equal(e.ceil_div(b, e.constant(64)), c), pool.divides(7, b)));
    program.begin_refinements();
    if (kind > 1) program.add(pool, e, pool.less_equal(e.max(e.mul(a, b), e.mod(a, c)), e.floor_div(b, c)));
    program.end_refinements();
    program.seal();
    BytesOut out;
    program.write(out);
    BytesOut seed;
    seed.number(static_cast<std::uint16_t>(out.view().size()));
    seed.bytes(out.view());
    seed.text("some slots of the launch");
    seeds.push_back(seed_of(seed.view()));
  }
  return seeds;
}

}  // namespace tessera::fuzz
