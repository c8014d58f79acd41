"""What two persons decide about money: closings, outcomes of attempts, money by hand, repairs."""
