// What the table of misuse makes of a row.
#include "kernels/misuse/misuse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::misuse::detail {
namespace {

class Checker {
 public:
  explicit Checker(const Row& row) : row_(row), entry_(row.entry), file_(row.where.file) {
    file_.erase(0, file_.rfind('/') + 1);
    fill();
    legal_ = row_.call(How::Run);
    fill();
  }
  void check() {
    for (std::size_t i = 0; i < row_.operands.size(); ++i) {
      if (is_tensor(i)) {
        check_extents(i);
        check_absent(i);
        check_leases(i);
      } else {
        check_numbers(i);
      }
    }
    check_letters();
    check_overflow();
    check_views();
    check_aliases();
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  Operand& operand(std::size_t i) const { return *row_.operands[i]; }
  bool is_tensor(std::size_t i) const { return !operand(i).number(); }
  const Axis& axis(char name) const {
    for (const Axis& a : row_.axes)
      if (a.name == name) return a;
    throw std::logic_error(std::string("no axis ") + name);
  }

  void fill_one(Operand& o, int axis_changed = -1, int extent = 0) const {
    std::vector<int> extents;
    for (const char* c = o.axes(); *c; ++c) {
      const auto set = overrides_.find(*c);
      const bool changed = static_cast<int>(extents.size()) == axis_changed;
      extents.push_back(changed ? extent : set != overrides_.end() ? set->second : axis(*c).value);
    }
    o.fill(extents);
  }
  void fill() {
    for (Operand* o : row_.operands) fill_one(*o);
  }
  void view_all() {
    for (Operand* o : row_.operands) o->view_all();
  }

  void expect_message(const Error& e, const std::string& what) const {
    const std::string text = e.what();
    EXPECT_NE(text.find(file_ + ":"), std::string::npos) << what << " names another line: " << text;
  }
  /// The tensors hold what they held, except for `but`; the legal call works as before.
  void expect_intact(const std::string& what, std::size_t but = kNone) {
    for (std::size_t i = 0; i < row_.operands.size(); ++i) {
      if (i == but || !is_tensor(i)) continue;
      try {
        EXPECT_TRUE(operand(i).intact()) << what << " changed operand " << i + 1;
      } catch (const Error& e) { ADD_FAILURE() << what << " took operand " << i + 1 << ": " << e.what(); }
    }
    overrides_.clear();
    fill();
    try {
      expect_same(row_.call(How::Run), what + ", and the legal call afterwards");
    } catch (const Error& e) { ADD_FAILURE() << what << " breaks the legal call: " << e.what(); }
    fill();
  }
  void expect_same(const Values& got, const std::string& what) const {
    ASSERT_EQ(got.size(), legal_.size()) << what;
    for (std::size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r].size(), legal_[r].size()) << what;
      for (std::size_t i = 0; i < got[r].size(); ++i) {
        if (std::isnan(got[r][i]) && std::isnan(legal_[r][i])) continue;
        ASSERT_NEAR(got[r][i], legal_[r][i], 1e-2 + 1e-2 * std::abs(legal_[r][i])) << what;
      }
    }
  }
  enum class Want { Rejected, Legal, Either };
  /// Runs the call with the operands as they are.
  template <class Expected = Error>
  void attempt(Want want, const std::string& how, std::size_t but = kNone) {
    const std::string what = entry_ + ", " + how;
    SCOPED_TRACE(what);
    bool thrown = false;
    try {
      (void)row_.call(How::Run);
    } catch (const Expected& e) {
      thrown = true;
      expect_message(e, what);
      EXPECT_NE(want, Want::Legal) << what << " is legal: " << e.what();
    } catch (const std::exception& e) {
      thrown = true;
      ADD_FAILURE() << what << " throws something else: " << e.what();
    }
    if (!thrown) {
      EXPECT_NE(want, Want::Rejected) << what << " was accepted";
      fill();  // given tensors are gone
    }
    expect_intact(what, thrown ? but : kNone);
  }

  int uses(char name) const {
    std::ptrdiff_t n = 0;
    for (const Operand* o : row_.operands) n += std::ranges::count(std::string(o->axes()), name);
    return static_cast<int>(n);
  }
  void check_extents(std::size_t which) {
    const std::string axes = operand(which).axes();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Axis& a = axis(axes[i]);
      for (const int extent : {a.value - 1, a.value + 1, 0}) {
        const bool free = uses(a.name) == 1 && !a.tied && extent >= a.least && extent <= a.most;
        fill_one(operand(which), static_cast<int>(i), extent);
        const bool multiple = a.tied && extent == 0 && a.least == 0 && uses(a.name) == 1;  // 0 is one of any number
        attempt(free       ? Want::Legal
                : multiple ? Want::Either
                           : Want::Rejected,
                "operand " + std::to_string(which + 1) + ", axis " + std::to_string(i) + " of " +
                    std::to_string(a.value) + " made " + std::to_string(extent));
      }
    }
  }
  void check_absent(std::size_t which) {
    operand(which).make_empty();
    attempt<BorrowError>(Want::Rejected, "operand " + std::to_string(which + 1) + " empty", which);
    operand(which).move_away();
    attempt<BorrowError>(Want::Rejected, "operand " + std::to_string(which + 1) + " moved away", which);
  }
  void check_leases(std::size_t which) {
    const std::string what = "operand " + std::to_string(which + 1);
    const auto rejected = [&](const std::string& how) {
      try {
        (void)row_.call(How::Built);
        ADD_FAILURE() << entry_ << ", " << what << how << " was accepted";
      } catch (const BorrowError& e) { expect_message(e, entry_ + ", " + what + how); }
    };
    operand(which).while_written([&] { rejected(" being written"); });
    expect_intact(what + " being written");
    if (operand(which).given()) operand(which).while_read([&] { rejected(" being read"); });
    expect_intact(what + " being read");
  }
  void check_numbers(std::size_t which) {
    const Number& spec = *operand(which).number();
    for (const double bad : spec.rejected) {
      operand(which).set(bad);
      attempt(Want::Rejected, "number " + std::to_string(which + 1) + " = " + std::to_string(bad));
    }
    for (const double good : spec.taken) {
      operand(which).set(good);
      attempt(Want::Legal, "number " + std::to_string(which + 1) + " = " + std::to_string(good));
    }
  }
  /// No elements along an axis.
  void check_letters() {
    for (const Axis& a : row_.axes) {
      overrides_ = {{a.name, 0}};
      fill();
      attempt(a.least > 0 ? Want::Rejected : Want::Either, std::string("axis ") + a.name + " made 0 everywhere");
    }
  }
  /// 2^31 - 1 elements along some axes of operands without elements: the result of the call may be impossible.
  void check_overflow() {
    for (const Axis& zero : row_.axes) {
      if (!all_have(zero.name)) continue;
      for (const Axis& a : row_.axes) overrides_[a.name] = a.most < (1 << 20) ? a.most : 0x7fffffff;
      overrides_[zero.name] = 0;
      fill();
      const std::string what = entry_ + ", all axes but " + zero.name + " as long as can be";
      try {
        (void)row_.call(How::Built);
        fill();
      } catch (const Error& e) { expect_message(e, what); } catch (const std::exception& e) {
        ADD_FAILURE() << what << " throws something else: " << e.what();
      }
      expect_intact(what);
    }
  }
  bool all_have(char name) const {
    return std::ranges::all_of(row_.operands, [&](const Operand* o) {
      return o->number() || std::string(o->axes()).find(name) != std::string::npos;
    });
  }
  void check_views() {
    fill();
    for (Operand* o : row_.operands) o->view_with_gaps();
    try {
      expect_same(row_.call(How::RunOnViews), entry_ + ", views with gaps");
    } catch (const ShapeError& e) {  // an entry that takes no gaps says so
      expect_message(e, entry_ + ", views with gaps");
      EXPECT_NE(std::string(e.what()).find("contiguous"), std::string::npos) << entry_ << ": " << e.what();
    }
    fill();
    view_all();
    expect_same(row_.call(How::RunOnViews), entry_ + ", views");
    fill();
    expect_intact(entry_ + ", views");
  }
  /// A given operand that the same call reads.
  void check_aliases() {
    for (const Operand* given : row_.operands) {
      if (!given->given()) continue;
      for (std::size_t i = 0; i < row_.operands.size(); ++i) {
        fill();
        view_all();
        if (!operand(i).view_of(*given)) continue;
        const std::string what = entry_ + ", operand " + std::to_string(i + 1) + " is the given one";
        try {
          (void)row_.call(How::RunOnViews);
          ADD_FAILURE() << what << " was accepted";
        } catch (const BorrowError& e) { expect_message(e, what); }
        expect_intact(what);
      }
    }
  }

  const Row& row_;
  std::string entry_, file_;
  std::map<char, int> overrides_;
  Values legal_;
};

}  // namespace

void check(const Row& row) {
  SCOPED_TRACE(row.entry);
  try {
    Checker(row).check();
  } catch (const std::exception& e) { ADD_FAILURE() << row.entry << ": " << e.what(); }
}

}  // namespace tessera::misuse::detail
