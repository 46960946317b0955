// Ranges, and the product of axes.
#include "sweep.hpp"

#include <charconv>
#include <sstream>

#include "commands.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

bool read_number(const std::string& text, long long& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> values_of(const std::string& text) {
  std::vector<std::string> values;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t dots = word.find("..");
    if (dots == std::string::npos) {
      values.push_back(word);
      continue;
    }
    long long low = 0, high = 0;
    if (!read_number(word.substr(0, dots), low) || !read_number(word.substr(dots + 2), high) || low < 1 || high < low)
      throw UsageError(concat("expected a range such as 1024..65536, found ", word));
    for (; low <= high / 2; low *= 2) values.push_back(std::to_string(low));
    values.push_back(std::to_string(low));
  }
  return values;
}

bool numeric(const SweepAxis& axis) {
  long long ignored = 0;
  for (const std::string& v : axis.values) {
    if (!read_number(v, ignored)) return false;
  }
  return true;
}

}  // namespace

Sweep::Sweep(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.find('=') != std::string::npos) set(word);
  }
}

void Sweep::set(const std::string& word) {
  const std::size_t equals = word.find('=');
  SweepAxis axis{word.substr(0, equals), values_of(word.substr(equals + 1))};
  bool whole = !axis.key.empty() && !axis.values.empty() && word.back() != ',';
  for (const std::string& value : axis.values) whole = whole && !value.empty();
  if (!whole) throw UsageError(concat("expected key=value,value... or key=low..high, found ", word));
  for (SweepAxis& a : axes_) {
    if (a.key != axis.key) continue;
    a = std::move(axis);
    return;
  }
  axes_.push_back(std::move(axis));
}

void Sweep::keep_first() {
  for (SweepAxis& a : axes_) a.values.resize(1);
}

int Sweep::main_axis() const {
  int best = -1;
  std::size_t most = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].values.size() <= most || !numeric(axes_[a])) continue;
    most = axes_[a].values.size();
    best = static_cast<int>(a);
  }
  return best;
}

std::vector<SweepSeries> series_of(const Sweep& sweep) {
  const std::vector<SweepAxis>& axes = sweep.axes();
  const int main = sweep.main_axis();
  std::vector<SweepSeries> all;
  std::vector<std::size_t> at(axes.size(), 0);
  for (bool more = true; more;) {
    SweepSeries series;
    const std::size_t runs = main < 0 ? 1 : axes[static_cast<std::size_t>(main)].values.size();
    for (std::size_t run = 0; run < runs; ++run) {
      std::string words;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        const std::size_t value = static_cast<int>(a) == main ? run : at[a];
        words += concat(words.empty() ? "" : " ", axes[a].key, "=", axes[a].values[value]);
      }
      series.words.push_back(words);
      series.at.push_back(main < 0 ? 1 : std::stod(axes[static_cast<std::size_t>(main)].values[run]));
    }
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (static_cast<int>(a) == main || axes[a].values.size() < 2) continue;
      series.name += concat(series.name.empty() ? "" : " ", axes[a].key, "=", axes[a].values[at[a]]);
    }
    all.push_back(std::move(series));
    more = false;  // the next combination of the other axes, the last one fastest
    for (std::size_t a = axes.size(); a-- > 0 && !more;) {
      if (static_cast<int>(a) == main) continue;
      more = ++at[a] < axes[a].values.size();
      if (!more) at[a] = 0;
    }
  }
  return all;
}

}  // namespace tessera
