// Runs rows of misuse, and judges the outcome of each variant.
#include "misuse/misuse.hpp"

#include <algorithm>

#include "runtime/null_device.hpp"

namespace tessera::misuse {

int Call::choose(std::vector<Variant> variants, SourceLocation where) {
  last_line_ = std::max(last_line_, where.line);
  sites_.push_back(std::move(variants));
  return static_cast<int>(sites_.size()) - 1 == site_ ? variant_ : -1;
}

void Call::note(const std::string& text, SourceLocation where) {
  last_line_ = std::max(last_line_, where.line);
  results_ += concat(text, "\n");
}

Extent Call::extent(std::int64_t legal, SourceLocation where) {
  switch (choose({{"an extent of -1", Outcome::Rejected},
                  {"an extent of 2^31", Outcome::Rejected},
                  {"an extent of 2^63 - 1", Outcome::Rejected},
                  {"an extent of 2^64 - 1", Outcome::Rejected},
                  {"an extent of -2^63", Outcome::Rejected},
                  {"an extent of 0", Outcome::Either},
                  {"a larger extent", Outcome::Either}},
                 where)) {
    case 0: return -1;
    case 1: return std::int64_t{1} << 31;
    case 2: return std::numeric_limits<std::int64_t>::max();
    case 3: return ~std::uint64_t{0};
    case 4: return std::numeric_limits<std::int64_t>::min();
    case 5: return 0;
    case 6: return legal + 1;
    default: return legal;
  }
}

Extent Call::bound(std::int64_t legal, std::int64_t length, SourceLocation where) {
  switch (choose({{"a bound of -1", Outcome::Rejected},
                  {"a bound beyond the end", Outcome::Rejected},
                  {"a bound of 2^63 - 1", Outcome::Rejected},
                  {"a bound of -2^63", Outcome::Rejected}},
                 where)) {
    case 0: return -1;
    case 1: return length + 1;
    case 2: return std::numeric_limits<std::int64_t>::max();
    case 3: return std::numeric_limits<std::int64_t>::min();
    default: return legal;
  }
}

int Call::axis(int legal, int rank, SourceLocation where) {
  switch (choose({{"the axis -1", Outcome::Rejected},
                  {"the axis after the last", Outcome::Rejected},
                  {"the axis 2^31 - 1", Outcome::Rejected}},
                 where)) {
    case 0: return -1;
    case 1: return rank;
    case 2: return std::numeric_limits<int>::max();
    default: return legal;
  }
}

Stream Call::stream(Outcome elsewhere, SourceLocation where) {
  static runtime::NullDevice& other = *new runtime::NullDevice;
  const int chosen = choose({{"a stream of another device", elsewhere}, {"the default stream", Outcome::Same}}, where);
  if (chosen == 0) return Stream(Device(other));
  return chosen == 1 ? Stream::default_of(Device::cpu()) : Stream(Device::cpu());
}

long long Call::integer(long long legal, long long least, unsigned long long most, SourceLocation where) {
  std::vector<Variant> variants;
  std::vector<long long> values;
  const auto add = [&](const char* what, long long value) {
    variants.push_back({what, Outcome::Rejected});
    values.push_back(value);
  };
  constexpr auto kMost = static_cast<unsigned long long>(std::numeric_limits<long long>::max());
  if (most < kMost) add("one more than the largest number", static_cast<long long>(most) + 1);
  if (most < kMost) add("2^63 - 1", std::numeric_limits<long long>::max());
  if (least > std::numeric_limits<long long>::min()) add("one less than the least number", least - 1);
  if (least > std::numeric_limits<long long>::min()) add("-2^63", std::numeric_limits<long long>::min());
  const int chosen = choose(std::move(variants), where);
  return chosen < 0 ? legal : values[static_cast<std::size_t>(chosen)];
}

double Call::floating(double legal, SourceLocation where) {
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), 0, -legal};
  const int chosen = choose({{"not a number", Outcome::Either},
                             {"infinity", Outcome::Either},
                             {"minus infinity", Outcome::Either},
                             {"0", Outcome::Either},
                             {"the negative number", Outcome::Either}},
                            where);
  return chosen < 0 ? legal : values[chosen];
}

std::string Call::changed() const {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const std::string text = operands_[i] ? operands_[i]->changed() : "";
    if (!text.empty()) return concat("operand ", i + 1, ": ", text);
  }
  return "";
}

void Call::make_legal(bool again) {
  for (const auto& o : operands_) {
    if (o) o->release();
  }
  if (!again) operands_.clear();
  if (site_ >= 0 && static_cast<std::size_t>(site_) < operands_.size())
    operands_[static_cast<std::size_t>(site_)].reset();
  site_ = variant_ = -1;
  sites_.clear();
  written_.clear();
  results_.clear();
}

namespace {

/// Rows run on the CPU, whose memory the harness reads.
struct OnCpu {
  Device before = default_device();
  OnCpu() { set_default_device(Device::cpu()); }
  ~OnCpu() { set_default_device(before); }
};

/// The error in an error's location; empty if it is a line of the row.
std::string wrong_place(const Error& error, const Row& row, const Call& legal) {
  const SourceLocation w = error.where();
  const std::uint32_t last_line = legal.last_line();
  if (legal.no_place() && !w.known()) return "";
  if (w.known() && std::strcmp(w.file, row.file) == 0 && w.line >= row.line && w.line <= last_line) return "";
  return concat("its place is not a line of the row (", row.line, " to ", last_line, ")");
}

/// What the error should say and does not; empty if nothing is missing.
std::string missing_text(const Error& error, const Row& row, const Variant& v) {
  for (const std::string& text : v.says) {
    if (std::string_view(error.what()).find(text) == std::string_view::npos)
      return concat("it does not say '", text, "'");
  }
  const bool of_row = !v.says.empty() && error.message() == v.says.front();
  if (of_row || !about_work_in_flight(row) || error.message().find("\n  ") != std::string::npos) return "";
  return "it does not say what to do";
}

/// Runs one variant, then the legal call.
void check_variant(const Row& row, const Call& legal, int site, int number) {
  const Variant& v = legal.sites()[static_cast<std::size_t>(site)][static_cast<std::size_t>(number)];
  SCOPED_TRACE(concat(row.entry, ", operand ", site + 1, ": ", v.what));
  Call call(site, number);
  bool rejected = false;
  try {
    row.run(call);
    if (v.outcome == Outcome::Rejected) ADD_FAILURE() << "it is accepted";
    if (v.outcome == Outcome::Same && call.results() != legal.results()) ADD_FAILURE() << "it gives another result";
  } catch (const InternalError& error) { ADD_FAILURE() << error.what(); } catch (const Error& error) {
    rejected = true;
    if (v.outcome == Outcome::Same) ADD_FAILURE() << "it is rejected: " << error.what();
    const std::string place = wrong_place(error, row, legal);
    if (!place.empty()) ADD_FAILURE() << place << ": " << error.what();
    const std::string missing = missing_text(error, row, v);
    if (!missing.empty()) ADD_FAILURE() << missing << ": " << error.what();
  } catch (const std::exception& error) { ADD_FAILURE() << "an error that is none of tessera's: " << error.what(); }
  if (rejected) {
    call.make_legal(true);
    const std::string changed = call.changed();
    if (!changed.empty()) ADD_FAILURE() << "after the error, " << changed;
  }
  call.make_legal(rejected);
  try {
    row.run(call);
    if (call.results() != legal.results()) ADD_FAILURE() << "the next legal call gives another result";
  } catch (const std::exception& error) { ADD_FAILURE() << "the next legal call is rejected: " << error.what(); }
}

}  // namespace

namespace {
std::vector<Row>& table() {
  static std::vector<Row> rows;
  return rows;
}
}  // namespace

bool about_work_in_flight(const Row& row) {
  const std::string file = row.file, entry = row.entry;
  for (const char* name : {"flows", "tasks", "loops", "graphs", "captures", "streams", "gpu", "memory", "failures"}) {
    if (file.ends_with(std::string("misuse/") + name + "_test.cpp")) return true;
  }
  return entry == "borrow" || entry.find("dlpack") != entry.npos || entry.starts_with("Op::") || entry == "all";
}

bool add(const Row& row) {
  table().push_back(row);
  return true;
}

Size size_of_table(bool (*about)(const Row& row)) {
  const OnCpu on_cpu;
  Size size;
  for (const Row& row : table()) {
    if (!about(row)) continue;
    Call legal;
    row.run(legal);
    ++size.rows;
    for (const auto& site : legal.sites())
      size.rejected += static_cast<std::size_t>(
          std::count_if(site.begin(), site.end(), [](const Variant& v) { return v.outcome == Outcome::Rejected; }));
  }
  return size;
}

void check(const Row& row) {
  const OnCpu on_cpu;
  Call legal;
  row.run(legal);
  std::size_t variants = 0;
  for (std::size_t site = 0; site < legal.sites().size(); ++site) {
    for (std::size_t n = 0; n < legal.sites()[site].size(); ++n, ++variants)
      check_variant(row, legal, static_cast<int>(site), static_cast<int>(n));
  }
  EXPECT_GT(variants, 0u) << "a row without operands checks nothing";
}

}  // namespace tessera::misuse
