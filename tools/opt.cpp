// tessera opt: runs passes on a file of Tile IR, and converts between text and bytecode.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "command_rows.hpp"
#include "ir_file.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera {
namespace {

struct OptOptions {
  std::string file, output;
  passes::Target target;
  std::vector<std::string> only;                ///< names of passes
  std::string until;                            ///< name of the last pass
  bool none = false;                            ///< no pass at all
  bool locations = false;                       ///< in text
  std::optional<ir::BytecodeVersion> bytecode;  ///< to be written instead of text
};

const passes::PassInfo& pass_of(const std::string& name) {
  const passes::PassInfo* pass = passes::find_pass(name);
  if (pass == nullptr) throw UsageError(concat("there is no pass ", name, "; tessera explain --passes lists them"));
  if (pass->when == passes::When::Claims || pass->when == passes::When::Checked)
    throw UsageError(concat("the pass ", name, " needs what only a launch knows (", passes::text(pass->when),
                            "): tessera explain --after ", name, " shows what it does in a program"));
  return *pass;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    items.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

passes::Target target_of(const std::string& text) {
  if (text == "cpu") return {};
  try {
    check_gpus(text);
  } catch (const UsageError&) { throw UsageError(concat("--target takes a GPU such as sm_90, or cpu, found ", text)); }
  if (text.find(',') != std::string::npos) throw UsageError(concat("--target takes one GPU, found ", text));
  return jit::target_for(std::stoi(text.substr(3)));
}

ir::BytecodeVersion version_of(const std::string& text) {
  unsigned minor = 0;
  const std::size_t start = text.starts_with("13.") ? 3 : text.size();
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), minor);
  if (error != std::errc() || end != text.data() + text.size() || minor == 0 || minor > ir::BytecodeVersion{}.minor)
    throw UsageError(
        concat("--bytecode takes a version from 13.1 to 13.", int{ir::BytecodeVersion{}.minor}, ", found ", text));
  return {13, static_cast<std::uint8_t>(minor)};
}

OptOptions parse_opt(Words words) {
  const Given given(row_of("opt"), words);
  OptOptions o;
  if (given.words().size() != 1) throw UsageError(concat("expected one file of Tile IR, found ", given.words().size()));
  o.file = given.words()[0];
  o.output = given.text("-o");
  o.target = target_of(given.text("--target", "sm_90"));
  o.until = given.text("--until");
  o.locations = given.has("--locations");
  if (given.has("--bytecode")) o.bytecode = version_of(given.text("--bytecode"));
  if (given.has("--passes")) {
    o.none = given.text("--passes") == "none";
    if (!o.none) o.only = split(given.text("--passes"));
  }
  if (given.has("--passes") && given.has("--until"))
    throw UsageError("expected one of --passes and --until, found both");
  for (const std::string& name : o.only) pass_of(name);
  if (given.has("--until")) pass_of(o.until);
  if (o.bytecode && o.output.empty()) throw UsageError("--bytecode needs -o FILE: it is not written to a terminal");
  if (!o.bytecode && o.output.ends_with(".tilebc")) o.bytecode = ir::BytecodeVersion{};
  return o;
}

/// Passes for code generation lower checks, so they run only if they are named.
void run(const OptOptions& o, ir::Module& module) {
  if (o.none) return;
  passes::Work work;
  const auto is_for_code = [](const std::string& name) { return pass_of(name).when == passes::When::Code; };
  work.lower = std::ranges::any_of(o.only, is_for_code) || (!o.until.empty() && is_for_code(o.until));
  work.only = o.only;
  work.stop_after = o.until;
  passes::run_passes(module, o.target, nullptr, work);
}

void write(const OptOptions& o, const ir::Module& module) {
  std::string content;
  if (o.bytecode) {
    const auto bytes = ir::write_bytecode(module, {*o.bytecode, true});
    content.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    content = ir::print(module, {o.locations});
  }
  std::FILE* out = o.output.empty() ? stdout : std::fopen(o.output.c_str(), "wb");
  bool written = out != nullptr && std::fwrite(content.data(), 1, content.size(), out) == content.size();
  if (out != nullptr) written = (out == stdout ? std::fflush(out) : std::fclose(out)) == 0 && written;
  if (!written) throw IoError(concat("cannot write ", o.output.empty() ? "standard output" : o.output));
}

}  // namespace

int opt_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("opt"));
  OptOptions o;
  try {
    o = parse_opt(words);
  } catch (const UsageError& error) { return report_usage(row_of("opt"), error); }
  const IrFile file = valid_ir_file(o.file);
  run(o, *file.module);
  write(o, *file.module);
  return 0;
}

}  // namespace tessera
