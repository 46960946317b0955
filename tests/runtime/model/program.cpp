// The table of operations; programs as text; enumeration up to renaming.
#include "runtime/model/program.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tessera::runtime::model {

namespace {

constexpr std::array<KindInfo, kKinds> kInfo{{{"mix", "syx"},
                                              {"fill", "sy"},
                                              {"read", "sx"},
                                              {"fail", "syx"},
                                              {"wait", "syx"},
                                              {"fail_wait", "syx"},
                                              {"renew", "syt"},
                                              {"host_read", "y"},
                                              {"host_write", "y"},
                                              {"build", "yx"},
                                              {"submit", "s"},
                                              {"cancel", ""},
                                              {"sync", "s"},
                                              {"restart", "s"},
                                              {"capture", "yx"},
                                              {"replay", "s"},
                                              {"number", ""},
                                              {"drop_graph", ""}}};

/// Names in the order of their first use: 0, 1, 2. Renaming gives one program of each class that has this form.
struct Names {
  int streams = 0, storages = 0;
  static bool take(int& known, int name) {
    known += name == known ? 1 : 0;
    return name < known;
  }
  bool add(const Operation& op) {
    bool good = true;
    for (const char* operand = info(op.kind).operands; *operand != '\0'; ++operand) {
      if (*operand == 's') good = good && take(streams, op.stream);
      if (*operand == 't') good = good && take(streams, op.x);
      if (*operand == 'y') good = good && take(storages, op.y);
      if (*operand == 'x') good = good && take(storages, op.x);
    }
    return good;
  }
};

/// What exists at a point of a program.
struct Exists {
  bool pending = false, graph = false;
};
bool follows(const Operation& op, Exists& now) {
  switch (op.kind) {
    case Kind::Build: return !std::exchange(now.pending, true);
    case Kind::Submit:
    case Kind::Cancel: return std::exchange(now.pending, false);
    case Kind::Capture: return op.y != op.x && !std::exchange(now.graph, true);
    case Kind::Replay:
    case Kind::Number: return now.graph;
    case Kind::DropGraph: return std::exchange(now.graph, false);
    default: return true;
  }
}

struct Enumeration {
  const std::vector<Operation> operations;
  std::size_t length;
  const std::function<bool(const Program&)>& f;
  Program program{};

  bool extend(const Names& names, Exists exists) {
    if (program.size() == length) return f(program);
    for (const Operation& op : operations) {
      Names extended = names;
      Exists now = exists;
      if (!extended.add(op) || !follows(op, now)) continue;
      program.push_back(op);
      if (!extend(extended, now)) return false;
      program.pop_back();
    }
    return true;
  }
};

}  // namespace

const KindInfo& info(Kind kind) { return kInfo[static_cast<std::size_t>(kind)]; }

std::string text(const Program& program) {
  std::string text;
  for (const Operation& op : program) {
    if (!text.empty()) text += ' ';
    text += info(op.kind).name;
    for (const char* operand = info(op.kind).operands; *operand != '\0'; ++operand)
      text += static_cast<char>('0' + (*operand == 's' ? op.stream : *operand == 'y' ? op.y : op.x));
  }
  return text;
}

Program parse(const std::string& text) {
  Program program;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t letters = word.find_first_of("0123456789");
    const std::string name = word.substr(0, letters), digits = letters < word.size() ? word.substr(letters) : "";
    const auto* row = std::find_if(kInfo.begin(), kInfo.end(), [&](const KindInfo& i) { return name == i.name; });
    if (row == kInfo.end() || digits.size() != std::strlen(row->operands))
      throw std::invalid_argument("not an operation of the model check: " + word);
    Operation op;
    op.kind = static_cast<Kind>(row - kInfo.begin());
    for (std::size_t i = 0; i < digits.size(); ++i) {
      const char operand = row->operands[i];
      (operand == 's' ? op.stream : operand == 'y' ? op.y : op.x) = static_cast<std::uint8_t>(digits[i] - '0');
    }
    program.push_back(op);
  }
  return program;
}

std::vector<Operation> Alphabet::operations() const {
  std::vector<Operation> all;
  for (const Kind kind : kinds) {
    const char* operands = info(kind).operands;
    const auto count = [&](char operand, int n) { return std::strchr(operands, operand) != nullptr ? n : 1; };
    const int seconds = std::strchr(operands, 't') != nullptr ? streams : count('x', storages);
    for (int s = 0; s < count('s', streams); ++s) {
      for (int y = 0; y < count('y', storages); ++y) {
        for (int x = 0; x < seconds; ++x)
          all.push_back(
              {kind, static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(x)});
      }
    }
  }
  return all;
}

std::span<const Kind> kinds_without_failures() {
  static constexpr std::array kKindsHere{Kind::Mix,    Kind::Fill,     Kind::Read,      Kind::Wait,
                                         Kind::Renew,  Kind::HostRead, Kind::HostWrite, Kind::Build,
                                         Kind::Submit, Kind::Cancel,   Kind::Sync,      Kind::Restart};
  return kKindsHere;
}

std::span<const Kind> all_kinds() {
  static constexpr std::array kKindsHere{Kind::Mix,      Kind::Fill,   Kind::Read,     Kind::Fail,      Kind::Wait,
                                         Kind::FailWait, Kind::Renew,  Kind::HostRead, Kind::HostWrite, Kind::Build,
                                         Kind::Submit,   Kind::Cancel, Kind::Sync,     Kind::Restart};
  return kKindsHere;
}

std::span<const Kind> graph_kinds() {
  static constexpr std::array kKindsHere{Kind::Capture, Kind::Replay, Kind::Number, Kind::DropGraph};
  return kKindsHere;
}

bool makes_sense(const Program& program) {
  Exists now;
  return std::all_of(program.begin(), program.end(), [&](const Operation& op) { return follows(op, now); });
}

void for_each_program(const Alphabet& alphabet, std::size_t length, const std::function<bool(const Program&)>& f) {
  Enumeration{alphabet.operations(), length, f}.extend({}, {});
}

Program random_program(const Alphabet& alphabet, std::size_t length, std::mt19937_64& random) {
  const std::vector<Operation> operations = alphabet.operations();
  Program program;
  Exists exists;
  while (program.size() < length) {
    const Operation& op = operations[random() % operations.size()];
    Exists now = exists;
    if (!follows(op, now)) continue;
    exists = now;
    program.push_back(op);
  }
  return program;
}

}  // namespace tessera::runtime::model
