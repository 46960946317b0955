// Decides whether a polynomial is never negative, given facts of the same form. Sound, not complete: "yes" is a proof,
// "no" says nothing. Private to the layer. docs/compiler/certificates.md has the rules.
#pragma once
#include <deque>
#include <memory_resource>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "certify/bounds.hpp"
#include "certify/poly.hpp"

namespace tessera::certify {

/// What is known of unknown integers. Facts are pushed and popped in the order of scopes; atoms and what defines them
/// stay.
class Prover {
 public:
  enum class Effort : std::uint8_t { Full, Little };
  /// All that is kept lies in `memory`, whose time it shares.
  Prover(Effort effort, std::pmr::memory_resource* memory);

  // ---- atoms --------------------------------------------------------------------------------------------------------
  /// An unknown integer in `range`; `varying`: it may differ between the elements of a tile.
  Atom make(Range range, bool varying = false);
  /// floor(a / b) for any a and b >= 1. The caller has shown b >= 1 in the present scope. Polynomials that divide
  /// without a rest give their quotient. The atom stands for floor(a / max(b, 1)), so that it has a value everywhere;
  /// what defines a quotient is used only while b >= 1 is known (Info::divides).
  Poly quotient(const PolyView& a, const PolyView& b);
  /// a - b * floor(a / b), for b >= 1 likewise.
  Poly remainder(const PolyView& a, const PolyView& b);
  /// The larger (true) or smaller (false) one of a and b.
  Poly extreme(const PolyView& a, const PolyView& b, bool larger);
  /// One of a and b; `varying`: in one element of a tile this one, in another that one.
  Poly choice(const PolyView& a, const PolyView& b, bool varying);
  Range range_of(Atom a) const { return always_[a]; }
  bool varies(const PolyView& p) const;
  /// Constant bounds, from the atoms' alone.
  Range range_of(const PolyView& p) const { return sum_range(p, always_); }

  // ---- facts --------------------------------------------------------------------------------------------------------
  /// Takes p >= 0 as true in the present scope.
  void know(const PolyView& p) { take(p, true); }
  /// The same where that only says what an atom in `p` is: it is no news of the others.
  void define(const PolyView& p) { take(p, false); }
  /// Takes "divisor divides p" as true everywhere.
  void know_multiple(const PolyView& p, Int divisor);
  /// Takes as true what facts say of atoms, of others in their place that belong to another element: facts about
  /// elements hold for all of them.
  void copy_facts(const std::vector<std::pair<Atom, Atom>>& renamed);
  /// The facts contradict each other: the present scope is never entered, and any claim is true in it. (Proofs do not
  /// ask: a divisor that is 0 must not seem to be at least 1.)
  bool is_impossible() const { return impossible_.has_value(); }
  std::size_t mark() const { return facts_.size(); }
  void release(std::size_t mark);

  /// True if there is news since `mark` of something in `p`.
  bool news_since(std::size_t mark, const PolyView& p) const;

  /// True only if p >= 0 follows. With little effort it stops earlier.
  bool never_negative(const PolyView& p, Effort effort = Effort::Full);
  bool at_most(const PolyView& a, const PolyView& b) { return never_negative(b - a); }
  bool multiple(const PolyView& p, Int divisor) const;
  /// The number that p is in the present scope, where the bounds of its atoms leave one.
  std::optional<Int> number(const PolyView& p) const;
  /// True only if p is never 0.
  bool never_zero(const PolyView& p);
  /// True if p is made of atoms with lower numbers only.
  bool is_before(const PolyView& p, std::size_t first) const;
  /// Atoms that are made from now on have this number or a higher one.
  std::size_t next_atom() const { return atoms_.size(); }
  /// There were more atoms than can be numbered.
  bool exhausted() const { return exhausted_; }

 private:
  struct Fact {
    PolyView poly;
    /// By terms: the newest of the older facts with a term of the same product; null: there is none.
    const Fact** older;
    std::size_t place(Product p) const;  ///< of the term of this product, which there is
  };
  /// Polynomials that are never negative, in the order in which they became known, and where each product occurs.
  class FactList {
   public:
    explicit FactList(std::pmr::memory_resource* memory)
        : memory_(memory), all_(memory), newest_of_atom_(memory), newest_of_product_(memory) {}
    void add(const PolyView& p);
    void shrink(std::size_t size);
    bool holds(const PolyView& p) const;
    std::size_t size() const { return all_.size(); }
    const PolyView& operator[](std::size_t i) const { return all_[i].poly; }
    /// The newest with a term of this product; null: there is none.
    const Fact* newest(Product p) const;

   private:
    struct Hash {
      std::size_t operator()(Product p) const {
        return static_cast<std::size_t>(
            (static_cast<std::uint64_t>(p) + 31 * static_cast<std::uint64_t>(p >> 64)) * 0x9E3779B97F4A7C15u >> 7);
      }
    };
    std::pmr::memory_resource* memory_;
    std::pmr::deque<Fact> all_;  // none is moved: facts point at facts
    const Fact*& newest_place(Product p);
    std::pmr::vector<const Fact*> newest_of_atom_;  // most products are one atom
    std::pmr::unordered_map<Product, const Fact*, Hash> newest_of_product_;
  };
  enum class Kind : std::uint8_t { Unknown, Quotient, Remainder, Choice };
  struct Info {
    Kind kind = Kind::Unknown;
    bool varying = false;
    PolyView a, b;
    std::optional<bool> larger;
    Int divisor = 1;                        ///< known to divide it
    bool divides = false;                   ///< a quotient: b >= 1 is known in the present scope
    std::size_t bounded = 0, releases = 0;  ///< a quotient: how many facts and releases there were when it was bounded
  };
  Info choice_of(const PolyView& a, const PolyView& b, bool varying) const;
  Atom add(Info info, Range range);
  Atom intern(const Info& info, Range range, bool& is_new);
  void know_quotient(Atom q, const PolyView& a, const PolyView& b);
  void know_divisor(Atom q);
  void take(const PolyView& p, bool is_news);
  void take_parts(const PolyView& fact, bool is_news);
  void bound_quotient(Atom q, const PolyView& a, const PolyView& b);
  Int least(const PolyTerm& t) const;
  bool is_fixed(const PolyTerm& t) const;
  Int least(const PolyView& p) const;
  bool search(const PolyView& given, int depth);
  bool search_divided(const PolyView& goal, int depth);
  bool replace(const PolyView& goal, const PolyTerm& term, int depth);
  bool eliminate(const PolyView& goal, const PolyTerm& term, int depth);
  bool eliminate_product(const PolyView& goal, const PolyTerm& term, int depth);
  bool by_division(const PolyView& goal, const PolyTerm& term, int depth);
  bool by_cases(const PolyView& goal, const PolyTerm& term, int depth);
  bool use_all(const PolyView& goal, const PolyTerm& term, Product of, Product scale, int depth);
  bool is_done(const PolyView& goal, Int of_goal, const PolyView& fact, Int of_fact);
  bool use(const PolyView& goal, const PolyTerm& term, const PolyView& fact, int depth);

  std::pmr::memory_resource* memory_;
  std::pmr::deque<Info> atoms_;
  Ranges always_, now_;                                      ///< in every scope, and in the present one
  std::pmr::unordered_multimap<std::uint64_t, Atom> index_;  ///< quotients and choices by their hash
  /// How many facts or news of an atom, and atoms of one kind, are looked at: otherwise each new one would cost as much
  /// as there are older ones. Beyond it a proof may be missed.
  static constexpr std::size_t kNewest = 64, kNewestAtoms = 8;
  using Atoms = std::pmr::vector<Atom>;
  static std::span<const Atom> newest(const Atoms& all);
  std::pmr::unordered_map<std::uint64_t, Atoms> quotients_by_;  ///< by the hash of their divisor
  Atoms minima_;
  FactList axioms_;  ///< of atoms: true in every scope
  FactList facts_;
  std::pmr::vector<std::size_t> news_;  ///< the numbers of the facts that are news
  struct Tightened {
    std::size_t facts;  ///< how many there were then
    Atom atom;
    Range before;
  };
  std::pmr::vector<Tightened> tightened_;  ///< ranges to restore when the facts are released
  struct Divides {
    std::size_t facts;  ///< how many there were when the divisor was shown
    Atom quotient;
  };
  std::pmr::vector<Divides> divides_;  ///< quotients whose divisor is unknown again when the facts are released
  Effort effort_;                      ///< for facts that are looked for beside what is asked
  /// Which terms of a polynomial a proof starts from: the newest alone, which is quick and mostly enough, or any.
  enum class Order : std::uint8_t { NewestOnly, Any };
  Order order_ = Order::Any;
  int budget_ = 0;
  static constexpr std::int64_t kPool = 1'000'000;
  std::int64_t pool_ = kPool;  ///< polynomials that proofs with full effort may still take, all together
  bool cut_ = false;           ///< of an attempt: something was left alone because the depth was used up
  /// Of a proof: polynomials by their hash, and the depth they had left. One forgets another of the same place.
  struct Tried {
    std::uint64_t hash = 0, proof = 0;
    int depth = 0;
  };
  std::pmr::vector<Tried> tried_;
  std::uint64_t proof_ = 0;
  std::size_t releases_ = 0;
  std::optional<std::size_t> impossible_;  ///< how many facts there were when they contradicted each other
  bool exhausted_ = false;                 ///< more atoms than can be numbered: nothing is proven any more
};

}  // namespace tessera::certify
