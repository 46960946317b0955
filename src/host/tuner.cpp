// A tuning run. docs/tuning.md describes the steps.
#include "tessera/host/tune.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "host/tune_search.hpp"
#include "host/tune_timer.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/jit/tuning.hpp"

namespace tessera {

const char* name_of(TrialOutcome outcome) {
  switch (outcome) {
    case TrialOutcome::Measured: return "measured";
    case TrialOutcome::Slow: return "slow";
    case TrialOutcome::Wrong: return "wrong result";
    case TrialOutcome::Pressure: return "register pressure";
    case TrialOutcome::Failed: return "failed";
    case TrialOutcome::Same: return "same code";
    case TrialOutcome::NotTried: return "not tried";
    case TrialOutcome::Compiled: return "compiled";
  }
  return "";
}

namespace detail {

TuneCopies::~TuneCopies() = default;
TuneValues::~TuneValues() = default;
TuneSubject::~TuneSubject() = default;

std::string float_difference(const void* found, const void* wanted, std::size_t count,
                             double (*value)(const void*, std::size_t), std::size_t argument, double allowed) {
  double squares = 0;
  std::size_t finite = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = value(wanted, i);
    if (std::isfinite(x)) squares += x * x, ++finite;
  }
  const double size = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double f = value(found, i), w = value(wanted, i);
    if (f == w || (std::isnan(f) && std::isnan(w))) continue;
    // An infinity is near no other number.
    const bool near = std::isfinite(w) && std::abs(f - w) <= allowed * std::max(std::abs(w), size);
    if (!near) return difference_text(argument, i, f, w);
  }
  return {};
}

std::string difference_text(std::size_t argument, std::size_t element, double found, double wanted) {
  return concat("argument ", argument, ": element ", element, " is ", found, ", expected ", wanted);
}

std::string argument_text(const LayoutRef& layout, bool lent) {
  return concat(lent ? "mut " : "", info(layout.element).name, "[", join(layout.dims), "]:", join(layout.strides, ","));
}

namespace {

constexpr double kHopeless = 1.5;         // times the best so far, after two launches
constexpr double kWorthChanging = 0.995;  // times the default: a smaller difference is noise
constexpr std::size_t kFinalists = 4;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[16] = "";
  if (gmtime_r(&now, &utc)) std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

struct Point {
  std::size_t candidate;
  TuningRecord hints;  // without provenance: a point is a trial
  TuningTrial trial;
  bool compiled = false;  // or found not to compile
  bool usable = false;    // compiled, not dropped so far
};

class Run {
 public:
  Run(const TuneSubject& subject, const TuneOptions& options)
      : subject_(subject), options_(options), device_(subject.device()), started_(Clock::now()) {}

  TuningReport go() {
    const ProfileRange range(ProfileTopic::Tune, concat("space ", subject_.name()).c_str(), {});
    list_points();
    if (options_.seconds > 0 && options_.only_compile == 0) {
      search_points();
    } else {
      compile_all();
      if (options_.only_compile == 0) {
        require_one_usable();
        open_journal();
        if (!keep_fresh()) measure_points();
      }
    }
    if (options_.only_compile == 0 && !report_.kept) {
      play_off();
      finish();
    }
    for (Point& p : points_) report_.trials.push_back(std::move(p.trial));
    return std::move(report_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // -- the points: the default candidate first, each first without hints ------------------------------------------

  void list_points() {
    std::vector<std::size_t> order;
    for (std::size_t c = 0; c < subject_.candidates(); ++c) {
      const bool is_first = !options_.first.empty() && options_.first == subject_.candidate(c);
      order.insert(is_first ? order.begin() : order.end(), c);
    }
    if (!options_.first.empty() && options_.first != subject_.candidate(order.front())) {
      throw CompileError(concat("space ", subject_.name(), ": there is no candidate \"", options_.first, "\""));
    }
    std::string space = options_.hints.empty() ? subject_.hints() : options_.hints;
    const bool hints_matter = options_.only_compile != 0 || device_.kind() == DeviceKind::Cuda;
    if (space == "-") space.clear();
    std::vector<std::string> combinations = jit::hint_combinations(space);  // which must be valid for all candidates
    if (!hints_matter) combinations.clear();
    for (const std::size_t c : order) {
      add_point(c, "");
      if (!subject_.takes_hints(c)) continue;
      for (const std::string& hints : combinations) {
        if (!hints.empty()) add_point(c, hints);
      }
    }
  }
  void add_point(std::size_t candidate, const std::string& hints) {
    Point p;
    p.candidate = candidate;
    p.hints.hints = hints;
    p.trial.choice = subject_.candidate(candidate);
    p.trial.hints = hints;
    points_.push_back(std::move(p));
  }

  // -- compiling: many at a time, each thread with copies of its own, because launches lease them -----------------

  std::size_t jobs() const {
    const unsigned wanted =
        options_.jobs > 0 ? static_cast<unsigned>(options_.jobs) : std::thread::hardware_concurrency();
    return std::clamp<std::size_t>(wanted, 1, points_.size());
  }
  void compile_all() {
    std::vector<std::size_t> all(points_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    compile_points(all);
  }
  /// Those that are not compiled yet. Points whose hints result in the code of an earlier one are dropped.
  void compile_points(const std::vector<std::size_t>& numbers) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      std::unique_ptr<TuneCopies> copies;
      for (std::size_t i; (i = next.fetch_add(1)) < numbers.size();)
        if (Point& p = points_[numbers[i]]; !p.compiled) compile_point(p, copies);
    };
    const std::size_t jobs = std::min(this->jobs(), numbers.size());
    std::vector<std::thread> threads;
    for (std::size_t j = 1; j < jobs; ++j) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    drop_equals(numbers);
  }
  void compile_point(Point& p, std::unique_ptr<TuneCopies>& copies) const {
    p.compiled = true;
    try {
      if (!copies) copies = subject_.copies(false);
      Op<void> op = subject_.launch(p.candidate, p.hints, *copies);
      if (!Reach::node(op)->compile({device_, options_.only_compile}, p.trial.code)) {
        throw CompileError("its call is not the launch of one kernel");
      }
      const jit::CodeNotes& notes = p.trial.code.notes;
      if (notes.register_pressure) return drop(p, TrialOutcome::Pressure, notes.warnings);
      if (options_.only_compile != 0) p.trial.outcome = TrialOutcome::Compiled;
      p.usable = true;
    } catch (const std::exception& error) { drop(p, TrialOutcome::Failed, error.what()); }
  }
  void drop_equals(const std::vector<std::size_t>& numbers) {
    for (const std::size_t number : numbers) {
      Point& p = points_[number];
      const bool is_known = std::any_of(points_.begin(), points_.end(), [&](const Point& other) {
        const bool before = &other < &p || (&other != &p && other.trial.ms > 0);
        return before && other.usable && other.candidate == p.candidate && other.trial.code.code == p.trial.code.code;
      });
      if (p.usable && p.trial.ms == 0 && is_known) drop(p, TrialOutcome::Same, "");
    }
  }
  static void drop(Point& p, TrialOutcome outcome, std::string why) {
    p.trial.outcome = outcome;
    p.trial.note = std::move(why);
    p.usable = false;
  }
  void require_one_usable() const {
    if (std::any_of(points_.begin(), points_.end(), [](const Point& p) { return p.usable; })) return;
    const TuningTrial& first = points_.front().trial;
    throw CompileError(concat("space ", subject_.name(), ": no point of it can be used. The first (", first.choice,
                              "): ", name_of(first.outcome), ": ", first.note));
  }

  // -- the journal ------------------------------------------------------------------------------------------------

  TuningRecord record_of(const Point& p) const {
    const jit::CodeReport& c = p.trial.code;
    TuningRecord r;
    r.kernel = c.kernel, r.hash = c.hash, r.predicates = c.predicates;
    r.device = c.device, r.gpu = c.gpu, r.assembler = c.assembler;
    r.space = subject_.name(), r.arguments = subject_.arguments();
    r.choice = p.trial.choice, r.hints = p.trial.hints;
    r.library = jit::library_version(), r.date = today();
    r.ms = p.trial.ms;
    return r;
  }
  void open_journal() {
    if (options_.file.empty()) return;
    const auto usable = std::find_if(points_.begin(), points_.end(), [](const Point& p) { return p.usable; });
    journal_.emplace(options_.file, record_of(*usable));
    const std::vector<TuningRecord> before = journal_->read();
    compile_points_of(before);
    for (const TuningRecord& known : before) {
      for (Point& p : points_) {
        if (p.usable && is_of(known, p) && known.hash == p.trial.code.hash) take_up(p, known);
      }
    }
  }
  static bool is_of(const TuningRecord& r, const Point& p) {
    return p.trial.choice == r.choice && p.trial.hints == r.hints;
  }
  /// A search has not compiled them yet.
  void compile_points_of(const std::vector<TuningRecord>& records) {
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto names = [&](const TuningRecord& r) { return is_of(r, points_[i]); };
      if (!points_[i].compiled && std::any_of(records.begin(), records.end(), names)) numbers.push_back(i);
    }
    compile_points(numbers);
  }
  /// With the option `keep`: uses a record of the file that is not stale, if no interrupted run has left a journal.
  bool keep_fresh() {
    if (!options_.keep || !journal_ || access(options_.file.c_str(), F_OK) != 0 || !journal_->read().empty())
      return false;
    const std::vector<TuningRecord> records = read_records(options_.file, {});
    compile_points_of(records);
    for (const TuningRecord& r : records) {
      for (const Point& p : points_) {
        if (!p.usable || !is_of(r, p)) continue;
        if (p.trial.code.hash != r.hash || !jit::same_subject(r, record_of(p))) continue;
        report_.best = r;
        return report_.kept = true;
      }
    }
    return false;
  }
  void take_up(Point& p, const TuningRecord& known) {
    p.trial.resumed = true;
    p.trial.ms = known.ms;
    p.trial.note = known.runner_up;
    p.trial.outcome = known.runner_up.empty() ? TrialOutcome::Measured : TrialOutcome::Slow;
    if (known.ms == 0) return drop(p, TrialOutcome::Wrong, known.runner_up);
    if (best_ == 0 || known.ms < best_) best_ = known.ms;
  }
  void note_in_journal(const Point& p) {
    if (!journal_) return;
    TuningRecord r = record_of(p);
    r.runner_up = p.trial.outcome == TrialOutcome::Measured ? "" : concat(name_of(p.trial.outcome), ": ", p.trial.note);
    journal_->add(r);
  }

  // -- checking and measuring -------------------------------------------------------------------------------------

  void measure_points() {
    begin_measuring();
    for (Point& p : points_) try_to_measure(p);
  }
  void begin_measuring() {
    timer_.emplace(device_, options_.warm);
    copies_ = subject_.copies(true);
  }
  void try_to_measure(Point& p) {
    if (!p.usable || p.trial.resumed || (reference_ && out_of_time())) return;
    try {
      measure(p);
    } catch (const std::exception& error) { drop(p, TrialOutcome::Failed, error.what()); }
    if (p.trial.outcome == TrialOutcome::Failed || p.trial.outcome == TrialOutcome::NotTried) return;
    note_in_journal(p);
  }

  // -- a limited time: the points that a model of the times expects most of are compiled and measured, some at a time

  void search_points() {
    std::vector<SearchPoint> all;
    for (const Point& p : points_) all.push_back({p.candidate, words_of(p.hints.hints)});
    TuneSearch search(all);
    bool begun = false;
    while (best_ == 0 || !out_of_time()) {
      const std::vector<std::size_t> some = search.next(jobs());
      if (some.empty()) break;
      compile_points(some);
      const bool usable = std::any_of(points_.begin(), points_.end(), [](const Point& p) { return p.usable; });
      if (usable && !std::exchange(begun, true)) {
        open_journal();
        if (keep_fresh()) return;
        begin_measuring();
        for (std::size_t i = 0; i < points_.size(); ++i)
          if (points_[i].trial.resumed) learn(search, i);
      }
      for (const std::size_t i : some) {
        if (points_[i].trial.resumed) continue;
        try_to_measure(points_[i]);
        learn(search, i);
      }
    }
    require_one_usable();
  }
  void learn(TuneSearch& search, std::size_t number) const {
    const Point& p = points_[number];
    if (p.usable && p.trial.ms > 0)
      search.measured(number, p.trial.ms);
    else
      search.drop(number);
  }
  static std::vector<std::string> words_of(const std::string& hints) {
    std::istringstream text(hints);
    return {std::istream_iterator<std::string>(text), std::istream_iterator<std::string>()};
  }
  bool out_of_time() const {
    return options_.seconds > 0 && std::chrono::duration<double>(Clock::now() - started_).count() > options_.seconds;
  }
  std::unique_ptr<TuneValues> results(Point& p) {
    const auto copies = subject_.copies(true);
    subject_.launch(p.candidate, p.hints, *copies).sync();
    return subject_.values(*copies);
  }
  void measure(Point& p) {
    Point& first = points_.front();
    // The default is the reference, also if an earlier run has measured it.
    if (!reference_ && &p != &first && first.usable) reference_ = results(first);
    auto found = results(p);
    if (!reference_)
      reference_ = std::move(found);
    else if (std::string why = subject_.difference(*found, *reference_, options_.tolerance); !why.empty())
      return drop(p, TrialOutcome::Wrong, std::move(why));
    std::vector<double> times = time(p, 2);
    const double least = std::min(times[0], times[1]);
    p.trial.outcome = TrialOutcome::Measured;
    p.trial.ms = least;
    if (best_ > 0 && least > kHopeless * best_) {
      p.trial.outcome = TrialOutcome::Slow;
      p.trial.note = "given up after two launches";
      return;
    }
    for (const double more : time(p, std::max(1, options_.launches - 2))) times.push_back(more);
    p.trial.ms = median(std::move(times));
    if (best_ == 0 || p.trial.ms < best_) best_ = p.trial.ms;
  }
  std::vector<double> time(const Point& p, int launches) {
    return timer_->time(launches, [&] { return subject_.launch(p.candidate, p.hints, *copies_); });
  }

  // -- the last round: clocks drift, so the best points are measured alternately
  // ------------------------------------------------

  void play_off() {
    std::vector<Point*> finalists;
    for (Point& p : points_) {
      if (p.usable && p.trial.outcome == TrialOutcome::Measured) finalists.push_back(&p);
    }
    Point& first = points_.front();
    std::stable_sort(finalists.begin(), finalists.end(), [](auto* a, auto* b) { return a->trial.ms < b->trial.ms; });
    if (finalists.size() > kFinalists) finalists.resize(kFinalists);
    const bool first_can = first.usable && first.trial.ms > 0;
    if (first_can && std::find(finalists.begin(), finalists.end(), &first) == finalists.end())
      finalists.push_back(&first);
    if (finalists.empty())
      throw CompileError(concat("space ", subject_.name(), ": no point of it gave a result: ", first.trial.note));
    std::vector<std::vector<double>> times(finalists.size());
    for (int round = 0; round < std::max(1, options_.rounds); ++round) {
      for (std::size_t f = 0; f < finalists.size(); ++f) times[f].push_back(time(*finalists[f], 1)[0]);
    }
    for (std::size_t f = 0; f < finalists.size(); ++f) finalists[f]->trial.ms = median(std::move(times[f]));
    std::stable_sort(finalists.begin(), finalists.end(), [](auto* a, auto* b) { return a->trial.ms < b->trial.ms; });
    choose(finalists, first_can ? &first : nullptr);
  }
  void choose(std::vector<Point*> by_time, Point* first) {
    Point* best = by_time.front();
    if (first && best->trial.ms > kWorthChanging * first->trial.ms) best = first;
    std::erase(by_time, best);
    report_.best = record_of(*best);
    report_.best.default_ms = first ? first->trial.ms : 0;
    if (by_time.empty()) return;
    const TuningTrial& second = by_time.front()->trial;
    report_.best.runner_up = concat(second.choice, second.hints.empty() ? "" : ", ", second.hints);
    report_.best.runner_up_ms = second.ms;
  }
  void finish() {
    if (options_.file.empty()) return;
    add_record(options_.file, report_.best, {});
    const bool whole = std::none_of(points_.begin(), points_.end(),
                                    [](const Point& p) { return p.trial.outcome == TrialOutcome::NotTried; });
    if (whole) journal_->remove();
  }

  const TuneSubject& subject_;
  const TuneOptions& options_;
  Device device_;
  Clock::time_point started_;
  std::vector<Point> points_;
  std::optional<jit::TuningJournal> journal_;
  std::optional<TuneTimer> timer_;
  std::unique_ptr<TuneCopies> copies_;     // the tensors that measured launches write
  std::unique_ptr<TuneValues> reference_;  // results of the default
  double best_ = 0;                        // milliseconds so far
  TuningReport report_;
};

}  // namespace

const TuningRecord* find_record(const std::vector<TuningRecord>& records, const TuneSubject& subject) {
  const std::string arguments = subject.arguments(), device = jit::device_description(subject.device());
  const TuningRecord* found = nullptr;
  for (const TuningRecord& r : records) {
    if (r.space == subject.name() && r.arguments == arguments && r.device == device) found = &r;
  }
  return found;
}

TuningReport run_tuner(const TuneSubject& subject, const TuneOptions& options) { return Run(subject, options).go(); }

}  // namespace detail
}  // namespace tessera
