// One table of the fields; writing and reading both follow it, in its order. The text is a subset of JSON (RFC 8259),
// so that other tools read it.
#include "tessera/jit/tuning.hpp"

#include <charconv>
#include <cmath>

#include "jit/code/json_text.hpp"
#include "jit/code/sha256.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {

struct TextField {
  const char* name;
  std::string TuningRecord::*member;
};
constexpr TextField kTexts[] = {
    {"kernel", &TuningRecord::kernel},       {"space", &TuningRecord::space},         {"choice", &TuningRecord::choice},
    {"hints", &TuningRecord::hints},         {"arguments", &TuningRecord::arguments}, {"hash", &TuningRecord::hash},
    {"held", &TuningRecord::predicates},     {"device", &TuningRecord::device},       {"gpu", &TuningRecord::gpu},
    {"assembler", &TuningRecord::assembler}, {"library", &TuningRecord::library},     {"date", &TuningRecord::date},
    {"runner_up", &TuningRecord::runner_up},
};
struct NumberField {
  const char* name;
  double TuningRecord::*member;
};
constexpr NumberField kNumbers[] = {{"ms", &TuningRecord::ms},
                                    {"default_ms", &TuningRecord::default_ms},
                                    {"runner_up_ms", &TuningRecord::runner_up_ms}};

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::size_t kSumDigits = 16;  // of SHA-256: detects damage; not for security
constexpr std::string_view kSumField = ",\"sum\":\"", kEnd = "\"}";

std::string sum_of(std::string_view text) { return hex(sha256(std::as_bytes(std::span(text)))).substr(0, kSumDigits); }

[[noreturn]] void fail(const std::string& found) { throw IoError(concat("expected a tuning record, found ", found)); }

/// What is left of a line.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  void expect(std::string_view token) {
    if (!text_.starts_with(token)) fail(concat("\"", text_.substr(0, 24), "\" where ", token, " should be"));
    text_.remove_prefix(token.size());
  }
  std::string string() {
    expect("\"");
    std::string out;
    while (!text_.empty() && text_[0] != '"') {
      if (text_[0] != '\\') {
        out += text_[0];
        text_.remove_prefix(1);
      } else if (text_.size() > 1 && (text_[1] == '"' || text_[1] == '\\')) {
        out += text_[1];
        text_.remove_prefix(2);
      } else {
        expect("\\u00");
        out += static_cast<char>(16 * digit() + digit());
      }
    }
    expect("\"");
    return out;
  }
  double number() {
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value) || value < 0) fail("a time that is none");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

 private:
  int digit() {
    const std::size_t at = text_.empty() ? kHexDigits.npos : kHexDigits.find(text_[0]);
    if (at == kHexDigits.npos) fail("a character code that is none");
    text_.remove_prefix(1);
    return static_cast<int>(at);
  }
  std::string_view text_;
};

/// What the checksum cannot know: a line with a right one may come from another program.
void check_values(const TuningRecord& r) {
  const auto is_hex = [](const std::string& s) { return s.find_first_not_of(kHexDigits) == s.npos; };
  if (r.hash.size() != 64 || !is_hex(r.hash)) fail(concat("the hash \"", r.hash, "\""));
  if (r.predicates.empty() || r.predicates.size() > 16 || !is_hex(r.predicates))
    fail(concat("the obligations \"", r.predicates, "\""));
  if (r.kernel.empty() || r.device.empty()) fail("one without a kernel or a device");
  try {
    passes::parse_tuning(r.hints);
  } catch (const CompileError& error) { fail(concat("hints that are none: ", error.message())); }
}

}  // namespace

const char* library_version() { return TESSERA_VERSION; }

std::string line_of(const TuningRecord& record) {
  std::string line = "{";
  for (const TextField& f : kTexts)
    line += concat(line.size() > 1 ? "," : "", json_text(f.name), ":", json_text(record.*f.member));
  for (const NumberField& f : kNumbers) line += concat(",", json_text(f.name), ":", record.*f.member);
  const std::string sum = sum_of(line);
  return concat(line, kSumField, sum, kEnd);
}

TuningRecord record_of(std::string_view line) {
  constexpr std::size_t kTail = kSumField.size() + kSumDigits + kEnd.size();
  if (line.size() < kTail) fail(line.empty() ? "an empty line" : concat("\"", line.substr(0, 24), "\""));
  const std::string_view body = line.substr(0, line.size() - kTail), tail = line.substr(body.size());
  if (!tail.starts_with(kSumField) || !tail.ends_with(kEnd)) fail("a line that is cut short, or of another kind");
  if (tail.substr(kSumField.size(), kSumDigits) != sum_of(body)) {
    fail(
        "a line that does not fit its checksum: it was damaged or changed by hand. Tune again; TESSERA_TUNING is there "
        "for experiments");
  }
  TuningRecord r;
  Reader in(body);
  in.expect("{");
  bool first = true;
  for (const TextField& f : kTexts) {
    in.expect(concat(first ? "" : ",", json_text(f.name), ":"));
    r.*f.member = in.string();
    first = false;
  }
  for (const NumberField& f : kNumbers) {
    in.expect(concat(",", json_text(f.name), ":"));
    r.*f.member = in.number();
  }
  if (!in.at_end()) fail("more fields than this version of Tessera knows");
  check_values(r);
  return r;
}

bool same_subject(const TuningRecord& a, const TuningRecord& b) {
  return a.space == b.space && a.arguments == b.arguments && a.device == b.device && a.gpu == b.gpu &&
         a.assembler == b.assembler;
}

}  // namespace tessera::jit
