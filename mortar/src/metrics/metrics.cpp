// The registry of metrics and its text.
#include "metrics.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "mortar/errors.hpp"

namespace mortar {
namespace {

bool is_name(std::string_view name, bool colons) {
  const auto letter = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
  };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || (quotes && c == '"'))
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

/// The shortest text that reads as this number.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string line(std::string_view name, std::string_view labels, const std::string& value) {
  std::string out(name);
  if (!labels.empty()) ((out += '{') += labels) += '}';
  return out + ' ' + value + '\n';
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {
  if (!std::is_sorted(bounds_.begin(), bounds_.end(), std::less_equal<>()))
    throw RequestError("expected rising bounds of a histogram's buckets");
}

void Histogram::observe(double value) noexcept {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<std::uint64_t> Histogram::counts() const {
  std::vector<std::uint64_t> out;
  for (const auto& count : counts_) out.push_back(count.load(std::memory_order_relaxed));
  return out;
}

Metrics::Series& Metrics::find(const std::string& name, const char* type, const std::string& help,
                               const Labels& labels) {
  if (!is_name(name, true)) throw RequestError("expected a name of a metric, found \"" + name + "\"");
  std::string key;
  for (const auto& [label, value] : labels) {
    if (!is_name(label, false)) throw RequestError(name + ": expected a name of a label, found \"" + label + "\"");
    key += (key.empty() ? "" : ",") + label + "=\"" + escaped(value, true) + "\"";
  }
  Family& family = families_.try_emplace(name, Family{type, help, {}}).first->second;
  if (family.type != type)
    throw RequestError(name + ": expected a " + family.type + ", as it is elsewhere, found a " + type);
  return family.series[key];
}

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& s = find(name, "counter", help, labels);
  if (!s.counter) s.counter = std::make_unique<Counter>();
  return *s.counter;
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& s = find(name, "gauge", help, labels);
  if (!s.gauge) s.gauge = std::make_unique<Gauge>();
  return *s.gauge;
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help, std::span<const double> bounds,
                              const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& s = find(name, "histogram", help, labels);
  if (!s.histogram) s.histogram = std::make_unique<Histogram>(bounds);
  return *s.histogram;
}

void Metrics::read_counter(const std::string& name, const std::string& help, std::function<double()> value,
                           const Labels& labels) {
  const std::lock_guard lock(mutex_);
  find(name, "counter", help, labels).read = std::move(value);
}

void Metrics::read_gauge(const std::string& name, const std::string& help, std::function<double()> value,
                         const Labels& labels) {
  const std::lock_guard lock(mutex_);
  find(name, "gauge", help, labels).read = std::move(value);
}

/// The count is the sum of the buckets that are shown, so that both agree while others observe.
void Metrics::append_histogram(std::string& out, const std::string& name, const std::string& labels,
                               const Histogram& histogram) {
  const auto counts = histogram.counts();
  const std::string before = labels.empty() ? "" : labels + ",";
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    const std::string bound = i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
    out += line(name + "_bucket", before + "le=\"" + bound + "\"", std::to_string(sum));
  }
  out += line(name + "_sum", labels, number(histogram.sum()));
  out += line(name + "_count", labels, std::to_string(sum));
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += "# HELP " + name + " " + escaped(family.help, false) + "\n# TYPE " + name + " " + family.type + "\n";
    for (const auto& [labels, s] : family.series) {
      if (s.histogram)
        append_histogram(out, name, labels, *s.histogram);
      else if (s.counter)
        out += line(name, labels, std::to_string(s.counter->value()));
      else
        out += line(name, labels, number(s.gauge ? s.gauge->value() : s.read()));
    }
  }
  return out;
}

}  // namespace mortar
