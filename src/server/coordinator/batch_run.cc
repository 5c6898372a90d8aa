#include "server/coordinator/batch_run.h"

#include <string>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/state/batch_commands.h"

namespace convoy::server::coordinator {

using optim::Term;
using optim::VectorName;
using optim::VectorPair;

// What the method was told in this iteration: first what is stored, then what is asked for now.
class BatchRun::Answers {
 public:
  explicit Answers(BatchMemory& memory) : memory_(memory) {}

  // Those of the iteration that begins behind so many commands, if they are stored.
  void load(std::uint64_t commands) {
    clear(commands);
    const Bytes stored = memory_.answers();
    if (stored.empty()) return;
    BatchAnswers all = decode_batch_answers(stored);
    if (all.commands == commands) answers_ = std::move(all);
  }

  bool stored() const { return at_ < answers_.answers.size(); }

  template <typename Ask>
  std::vector<double> get(std::uint64_t question, std::size_t scalars, const Ask& ask) {
    std::vector<BatchAnswer>& answers = answers_.answers;
    if (!stored()) {
      answers.push_back({question, ask()});
      try {
        memory_.answered(encode(answers_));
      } catch (...) {
        answers.pop_back();
        throw;
      }
    }
    const BatchAnswer& answer = answers[at_];
    if (answer.question != question || answer.scalars.size() != scalars) {
      throw UsageError("answer " + std::to_string(at_ + 1) + " of " +
                       std::to_string(answers.size()) +
                       " that are stored of this iteration belongs to another question: it was "
                       "begun with other options or by another version; go on with that one, or "
                       "from a checkpoint");
    }
    ++at_;
    return answer.scalars;
  }

  void again() { at_ = 0; }
  void clear(std::uint64_t commands) {
    answers_ = {commands, {}};
    at_ = 0;
  }

 private:
  BatchMemory& memory_;
  BatchAnswers answers_;
  std::size_t at_ = 0;
};

class BatchRun::FedSpace final : public optim::Space {
 public:
  FedSpace(NumberedSpace& space, Answers& answers) : space_(space), answers_(answers) {}

  std::vector<double> dots(std::span<const VectorPair> pairs) override {
    Writer question;
    for (const auto& [a, b] : pairs) {
      write(question, a);
      write(question, b);
    }
    return answers_.get(xxh3(question.view()), pairs.size(), [&] { return space_.dots(pairs); });
  }
  void combine(const VectorName& into, std::span<const Term> terms) override {
    if (answers_.stored()) return space_.skip();
    space_.combine(into, terms);
  }
  void multiply(const VectorName& into, const VectorName& a, const VectorName& b) override {
    if (answers_.stored()) return space_.skip();
    space_.multiply(into, a, b);
  }
  void keep(std::span<const VectorName> names) override {
    if (answers_.stored()) return space_.skip();
    space_.keep(names);
  }

 private:
  NumberedSpace& space_;
  Answers& answers_;
};

class BatchRun::FedObjective final : public optim::Objective {
 public:
  FedObjective(NumberedSpace& space, optim::Objective& objective, Answers& answers)
      : space_(space), objective_(objective), answers_(answers) {}

  double evaluate(const VectorName& weights) override {
    Writer question;
    question.boolean(true);  // no scalar products
    write(question, weights);
    if (answers_.stored()) space_.skip();
    return answers_
        .get(xxh3(question.view()), 1,
             [&] { return std::vector<double>{objective_.evaluate(weights)}; })
        .front();
  }

 private:
  NumberedSpace& space_;
  optim::Objective& objective_;
  Answers& answers_;
};

BatchRun::BatchRun(const optim::BatchOptions& options, NumberedSpace& space,
                   optim::Objective& objective, BatchMemory& memory)
    : space_(space),
      memory_(memory),
      answers_(std::make_unique<Answers>(memory)),
      fed_space_(std::make_unique<FedSpace>(space, *answers_)),
      fed_objective_(std::make_unique<FedObjective>(space, objective, *answers_)),
      optimizer_(options, *fed_space_, *fed_objective_) {
  if (const Bytes stored = memory.start(); !stored.empty()) start_ = decode_batch_start(stored);
  if (start_.begun) optimizer_.resume(start_.state);
  answers_->load(start_.commands);
}

BatchRun::~BatchRun() = default;

optim::BatchIteration BatchRun::next() {
  answers_->again();
  space_.go_back(start_.commands);
  BatchStart next;
  next.last = start_.begun ? optimizer_.iterate() : optimizer_.begin();
  next.begun = true;
  next.state = optimizer_.state();
  next.commands = space_.commands();
  try {
    memory_.begin(encode(next));
  } catch (...) {
    if (start_.begun) optimizer_.resume(start_.state);
    throw;
  }
  answers_->clear(next.commands);
  start_ = std::move(next);
  return start_.last;
}

}  // namespace convoy::server::coordinator
