// One description of a recipe for everything that goes over its keys: reading, printing, comparing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::train {

// What describe() calls for each table and key, in the order of printing.
class Fields {
 public:
  using Choices = std::vector<std::string>;
  // to_start: must exist for a run that doesn't go on from a checkpoint.
  enum class Path : std::uint8_t { no, must_exist, to_start, may_exist };

  virtual ~Fields() = default;

  // The table `key` of the current one. False: skip what is in it.
  virtual bool begin(const std::string& key, const std::string& doc) = 0;
  virtual void end() = 0;

  virtual void field(const char* key, bool& value, const char* doc) = 0;
  virtual void field(const char* key, std::int64_t& value, const char* doc) = 0;
  virtual void field(const char* key, double& value, const char* doc) = 0;
  virtual void field(const char* key, std::string& value, const char* doc,
                     const Choices& choices = {}, Path path = Path::no) = 0;
  virtual void field(const char* key, std::vector<double>& value, const char* doc) = 0;
  virtual void field(const char* key, std::vector<std::string>& value, const char* doc,
                     Path path = Path::no) = 0;
  // Tables that are repeated: [[key]].
  class List {
   public:
    virtual ~List() = default;
    virtual std::size_t size() const = 0;
    virtual void clear() = 0;
    virtual void add() = 0;
    virtual void describe_one(std::size_t index, Fields& fields) = 0;
  };
  virtual void list(const char* key, List& list, const char* doc) = 0;
  // A word in place of the table `key`. Reading: whether there is a text, which has to be that
  // word; printing: whether `is` says so.
  virtual bool word(const char* key, const char* word, bool& is, const char* doc) = 0;
  template <class T>
  void list_of(const char* key, std::vector<T>& tables, const char* doc);
  // A table with keys of its own; `vocabulary` has them under the name that `chosen` holds.
  virtual void options(const std::string& key, Options& options, const std::string& chosen,
                       const std::string& doc) = 0;
  // Keys of the current table that belong to the optimizer, or the schedule, that is named in it.
  // Reading: finds out what the name means.
  virtual void own_keys(OptimizerRecipe& optimizer) = 0;
  virtual void own_keys(ScheduleRecipe& schedule) = 0;
  // Whether the recipe has this table (printing: whether to print it).
  virtual bool optional_table(const char* key, bool& present) = 0;
};

// Every key of a recipe, once.
void describe(Recipe& recipe, Fields& fields);
// The keys of [[optimizer.groups]] and [[placement.layers]].
void describe(ParameterGroupRecipe& group, Fields& fields);
void describe(PlacementRule& rule, Fields& fields);

template <class T>
void Fields::list_of(const char* key, std::vector<T>& tables, const char* doc) {
  class ListOf final : public List {
   public:
    explicit ListOf(std::vector<T>& tables) : tables_(tables) {}
    std::size_t size() const override { return tables_.size(); }
    void clear() override { tables_.clear(); }
    void add() override { tables_.emplace_back(); }
    void describe_one(std::size_t index, Fields& fields) override {
      describe(tables_[index], fields);
    }

   private:
    std::vector<T>& tables_;
  };
  ListOf all(tables);
  list(key, all, doc);
}

// Lists the keys of what print_recipe() made without comments, as ("training.batch", "128"). Tables
// of a list are numbered, each list by itself.
std::vector<std::pair<std::string, std::string>> recipe_keys(const std::string& printed);

// Gives the key that one of the recipe's tables of options has under this name ("optimizer.beta1",
// "model.options.width"); null: there is none.
const Option* find_option(const Recipe& recipe, const std::string& key);

// Appends what makes no sense in a recipe that was read without problems of its own. `given` tells
// whether the user gave a key ("optimizer.momentum") another value than its default: complete
// recipes hold the defaults of keys that mean nothing to them; present() whether the recipe has the
// key at all. `trains`: whether the recipe is to train with, or says what was trained. A problem
// begins with the key that it is of.
class Given {
 public:
  virtual ~Given() = default;
  virtual bool operator()(const std::string& key) const = 0;
  virtual bool present(const std::string& key) const = 0;
};
void check_values(const Recipe& recipe, const Given& given, const Vocabulary& vocabulary,
                  bool trains, std::vector<std::string>& problems);

}  // namespace convoy::train
