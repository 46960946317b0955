// Files and texts of the tuner: records, files of them, journals, and hints.
#include "tessera/jit/tuning.hpp"
#include "fuzz/fuzz.hpp"
#include "jit/code/sha256.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::fuzz {
namespace {

constexpr std::string_view kSum = ",\"sum\":\"";

/// The line with the checksum that its text has.
std::string with_sum(std::string_view line) {
  const std::string_view body = line.substr(0, line.rfind(kSum));
  return concat(body, kSum, jit::hex(jit::sha256(bytes_of(body))).substr(0, 16), "\"}");
}

/// A text whose first character says whether the checksums of its lines are corrected.
std::string corrected(Bytes bytes) {
  Input in(bytes);
  const bool correct = in.flag();
  const std::string_view text = text_of(in.rest());
  if (!correct) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    out += line.starts_with("{\"kernel") ? with_sum(line) : std::string(line);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

TuningRecord sample_record(int number) {
  TuningRecord r;
  r.kernel = "gemm";
  r.space = "products";
  r.choice = "128x\"128\"\\x64\n";
  r.hints = "warps=4 latency=2";
  r.arguments = concat("f16[", number, ", 4]:4,1");
  r.hash = std::string(64, 'a');
  r.predicates = "3ff";
  r.device = "cpu";
  r.library = jit::library_version();
  r.date = "2026-11-22";
  r.ms = 0.1 + 0.2;
  r.default_ms = 1e-300;
  return r;
}

/// The record survives being written and read.
void require_kept(const TuningRecord& r) {
  const std::string line = jit::line_of(r);
  FUZZ_REQUIRE(line.find('\n') == line.npos);
  FUZZ_REQUIRE(jit::record_of(line) == r);
}

std::string file_of(int records) {
  const std::string path = folder() + "/seed.records";
  std::filesystem::remove(path);
  for (int i = 0; i < records; ++i) add_record(path, sample_record(i));
  return string_of(read_file(path));
}

}  // namespace

void fuzz_tuning_record(Bytes bytes) {
  const std::string line = corrected(bytes);
  TuningRecord r;
  if (accepted([&] { r = jit::record_of(line); })) require_kept(r);
}

Seeds seeds_tuning_record() {
  const std::string line = jit::line_of(sample_record(1));
  return {std::string(1, '\0') + line, std::string(1, '\1') + line};
}

void fuzz_tuning_file(Bytes bytes) {
  const std::string text = corrected(bytes);
  const std::string path = write_file("input.records", bytes_of(text));
  std::vector<TuningRecord> records;
  const bool read = accepted([&] { records = read_records(path); });
  for (const TuningRecord& r : records) require_kept(r);
  const bool added = accepted([&] { add_record(path, sample_record(0)); });
  FUZZ_REQUIRE(added == read);
  if (!added) {
    FUZZ_REQUIRE(string_of(read_file(path)) == text);
    return;
  }
  std::erase_if(records, [](const TuningRecord& r) { return jit::same_subject(r, sample_record(0)); });
  records.push_back(sample_record(0));
  FUZZ_REQUIRE(read_records(path) == records);
}

Seeds seeds_tuning_file() {
  return {std::string(1, '\0') + file_of(1), std::string(1, '\1') + file_of(2), std::string(1, '\1') + file_of(1)};
}

void fuzz_tuning_journal(Bytes bytes) {
  const std::string text = corrected(bytes);
  jit::TuningJournal journal(folder() + "/tuned", sample_record(0));
  write_file(std::filesystem::path(journal.path()).filename().string(), bytes_of(text));
  std::vector<TuningRecord> points = journal.read();
  for (const TuningRecord& r : points) require_kept(r);
  journal.add(sample_record(7));
  points.push_back(sample_record(7));
  FUZZ_REQUIRE(journal.read() == points);
  journal.remove();
}

Seeds seeds_tuning_journal() {
  const std::string line = jit::line_of(sample_record(1));
  return {std::string(1, '\0') + "\n" + line + "\n\n" + line.substr(0, 40),
          std::string(1, '\1') + "\n" + line + "\n\n" + line + "\n"};
}

void fuzz_tuning_text(Bytes bytes) {
  passes::Tuning tuning;
  if (!accepted([&] { tuning = passes::parse_tuning(text_of(bytes)); })) return;
  const std::string text = passes::text_of(tuning);
  FUZZ_REQUIRE(passes::parse_tuning(text) == tuning && passes::text_of(passes::parse_tuning(text)) == text);
}

Seeds seeds_tuning_text() {
  return {"warps=4 ctas=2, occupancy=1\tlatency=6 ahead=2", "access=tma stores=view",
          "split=0 pipeline=0 order=0 unmask=0 tiles=0 hints=0 early=0 overlap=2"};
}

void fuzz_hint_space(Bytes bytes) {
  std::vector<std::string> all;
  if (!accepted([&] { all = jit::hint_combinations(text_of(bytes)); })) return;
  FUZZ_REQUIRE(!all.empty());
  for (const std::string& hints : all) passes::parse_tuning(hints);
}

Seeds seeds_hint_space() { return {"warps=2,4 latency=2,4,6", "access=tma,pointer split=0,1", ""}; }

}  // namespace tessera::fuzz
