// Each name is a hash of a word that says what it names, and of fields with their lengths.
#include "jit/store/code_key.hpp"

#include <algorithm>

#include "jit/store/recording_key.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

/// Changes when bundles of older builds of Tessera must not be used: when the ABI between kernels and the launcher or
/// the meaning of obligations changes in a way that their texts do not show.
constexpr std::string_view kGeneration = "tessera bundle 9";

void add(Sha256& hash, int number) { hash.add_number(static_cast<std::uint64_t>(number)); }

}  // namespace

CacheKey name_of(const CodeKey& key) {
  Sha256 hash;
  hash.add_field("tessera code").add(key.recording).add_number(key.predicates).add_field(key.hints);
  for (const int number : {key.target.sm, key.target.num_sms, key.target.bytecode_minor}) add(hash, number);
  return form_key(hash.add_field(key.maker).finish(), key.form);
}

CacheKey form_key(const CacheKey& key, Form form) {
  if (form == Form::Chosen) return key;
  return Sha256().add(key).add_field(text_of(form)).finish();
}

CacheKey recording_for_disk(const ir::Module& recording, const analysis::LaunchContract& contract,
                            std::span<const std::byte> build) {
  return Sha256().add_field("tessera notes 5").add_field(build).add(recording_key(recording, contract)).finish();
}

std::vector<std::byte> maker_of(const tileiras::Assembler& assembler) {
  BytesOut out;
  out.number(assembler.major);
  out.number(assembler.minor);
  out.text(assembler.identity);
  return out.take();
}

CacheKey recording_for_bundles(const ir::Module& recording, const analysis::LaunchContract& contract,
                               const analysis::Facts& facts) {
  Sha256 hash;
  hash.add_field(kGeneration).add_number(contract.args.size());
  for (const analysis::ArgContract& arg : contract.args) {
    hash.add_number(static_cast<std::uint64_t>(arg.role));
    add(hash, arg.tensor), add(hash, arg.axis);
  }
  for (const analysis::TensorContract& t : contract.tensors) hash.add_number(t.written).add_number(t.exclusive);
  add(hash, contract.pieces_of_tensor);
  hash.add_number(contract.wide_grid);
  for (const analysis::Obligation& o : facts.obligations()) hash.add_field(o.text);
  // A truncated text does not identify its obligation.
  const auto is_cut = [](const analysis::Obligation& o) { return o.text.find("...") != std::string::npos; };
  if (std::ranges::any_of(facts.obligations(), is_cut)) hash.add_field(facts.predicates().bytes());
  return hash.add_field(ir::write_bytecode(recording, {{}, false})).finish();
}

CacheKey identity_of(std::span<const std::byte> bytecode, const std::vector<calling::Check>& checks) {
  Sha256 hash;
  for (const calling::Check& check : checks) hash.add_field(check.message);
  return hash.add_field(bytecode).finish();
}

CacheKey name_in_memory(const CacheKey& identity, Device device, const CompileOptions& options) {
  Sha256 hash;
  hash.add_field(device.name()).add_number(options.checked).add_number(options.raw_writes);
  hash.add_number(options.tensors.size());
  for (const TensorArgument& t : options.tensors) add(hash, t.slot), hash.add_field(t.label);
  return hash.add(identity).finish();
}

CacheKey cubin_name(std::span<const std::byte> bytecode, const std::string& gpu, const tileiras::Assembler& assembler,
                    int opt_level) {
  Sha256 hash;
  hash.add_field("tessera cubin 1").add_field(gpu).add_number(static_cast<std::uint64_t>(opt_level));
  add(hash, assembler.major), add(hash, assembler.minor);
  return hash.add_field(assembler.identity).add_field(bytecode).finish();
}

CacheKey slow_name(const CacheKey& cubin) { return Sha256().add_field("slow").add(cubin).finish(); }

CacheKey attempt_name(const CacheKey& cubin, double processor_seconds) {
  return Sha256().add(cubin).add_number(static_cast<std::uint64_t>(processor_seconds * 1e6)).finish();
}

}  // namespace tessera::jit
